// One seeded world: clients, a loop, the batcher and its backends, all of them in one thread and on
// one clock. Everything that may happen happens in an order that the seed decides. After every step
// the server's books are compared with the world's.
#ifndef HISTOGRAM_TESTS_SIMULATION_WORLD_H_
#define HISTOGRAM_TESTS_SIMULATION_WORLD_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/batching/fake_clock.h"
#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"
#include "tests/simulation/calls.h"

namespace histogram::server {

class SimulatedJob;

// What came of every byte that a simulated server accepted: exactly one reply, or one error.
class Ledger {
 public:
  // REQUIRES: `message` is a new number.
  void Accept(uint64_t message, uint64_t bytes) {
    EXPECT_TRUE(open_.emplace(message, bytes).second) << "message " << message << " came twice";
    accepted_ += bytes;
  }
  void Replied(uint64_t message) { replied_ += Settle(message); }
  void Failed(uint64_t message) { failed_ += Settle(message); }

  // Messages of which nobody has heard yet.
  size_t open() const { return open_.size(); }
  void ExpectBalanced() const {
    EXPECT_EQ(open_.size(), 0u) << "message " << open_.begin()->first << " got no answer";
    EXPECT_EQ(accepted_, replied_ + failed_);
  }
  uint64_t replied_bytes() const { return replied_; }
  uint64_t failed_bytes() const { return failed_; }

 private:
  uint64_t Settle(uint64_t message) {
    const auto entry = open_.extract(message);
    EXPECT_FALSE(entry.empty()) << "message " << message << " is answered twice, or never came";
    return entry.empty() ? 0 : entry.mapped();
  }

  std::map<uint64_t, uint64_t> open_;
  uint64_t accepted_ = 0, replied_ = 0, failed_ = 0;
};

class World {
 public:
  // What came to pass, so that a test can see that all of it does.
  struct Seen {
    uint64_t replied_bytes = 0, failed_bytes = 0;
    uint64_t waited = 0, refused = 0, drained = 0, lost = 0, unread = 0, full_ahead = 0;
  };
  // Adds to `seen`, which outlives it.
  World(uint64_t seed, Seen& seen);
  ~World();

  void Run();

  // --- For the calls
  FakeClock& clock() { return clock_; }
  Ledger& ledger() { return ledger_; }
  MemoryClass& read_ahead() { return ahead_; }
  CallGuard::Loop& loop() { return loop_; }
  bool Chance(uint32_t percent) { return random_() % 100 < percent; }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  std::unique_ptr<Message> NewMessage(SimulatedCall& call);
  bool Enqueue(Message& message, bool waits);
  void CancelJob(uint64_t number);

  // --- For the jobs
  void OnDone(SimulatedJob& job, const absl::Status& status);

 private:
  void MakeLimits();
  void MakeBackends();

  // What may happen.
  void Step();
  void OpenCall(bool only_compute);
  void OpenFromCallback();
  void Return(bool fail);
  void RunPosted();
  void RunDry();
  void CloseWhatIsOver();
  void Pass();
  void PassLong();
  void Drain();
  void EndStalled();
  void Finish();
  template <typename Which>
  SimulatedCall* Pick(Which&& which);

  // What must hold.
  void Check();
  void CheckBudgets();
  struct Caller {
    uint64_t held_bytes = 0, waiting = 0;
  };
  Caller Look(uint64_t id) const;
  void CheckRefusal(const absl::Status& status, uint64_t charge, const Batcher::Snapshot& before,
                    const Caller& caller, bool waits);
  void CheckOutcome(const SimulatedJob& job, const absl::Status& status);
  void CheckWatchdog() const;
  bool AnyHeld() const;
  bool AllUp() const;
  bool AnyUp() const;

  std::minstd_rand random_;
  FakeClock clock_;
  BatchingLimits limits_;
  std::vector<std::unique_ptr<PuppetBackend>> puppets_;
  MemoryClass ahead_;
  MemoryLedger memory_;
  const MemoryClass& replies_ = memory_.replies;
  CallGuard guard_{memory_, clock_};
  CallGuard::Loop loop_{guard_};
  Ledger ledger_;
  Seen& seen_;
  std::unique_ptr<Batcher> batcher_;
  std::list<std::unique_ptr<SimulatedCall>> calls_;
  std::map<uint64_t, SimulatedJob*> live_;  // taken and not done, by number
  std::deque<Message*> posted_;             // to the loop
  std::vector<std::weak_ptr<TestPayload>> payloads_;
  uint64_t numbers_ = 0;
  int depth_ = 0, callbacks_ = 0, failures_ = 0;
  bool draining_ = false, drained_ = false;
  const bool calm_;  // no backend is lost, no lane hangs
};

// A payload in the batcher. Deletes itself when it is done, so that AddressSanitizer sees whoever
// touches it later.
class SimulatedJob final : public Job {
 public:
  SimulatedJob(World& world, Message& message)
      : world_(world), message_(message), payload_(message.payload) {
    fragments = payload_->fragments;
    payload_owner = payload_;
    bytes = payload_->size;
    counters.assign(kByteValues, 99);  // must be overwritten
  }
  void Done(const absl::Status& status) override {
    world_.OnDone(*this, status);
    delete this;
  }
  Message& message() const { return message_; }
  bool exact() const { return counters == payload_->counts; }

  bool told_to_wait = false;
  // Whether it waits for room as of now.
  bool waiting() const { return told_to_wait && !JobTestPeer::Charged(*this); }

 private:
  World& world_;
  Message& message_;
  std::shared_ptr<TestPayload> payload_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_SIMULATION_WORLD_H_
