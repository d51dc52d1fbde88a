// One seeded world: clients, a loop, the batcher and its backends, all of them in one thread and on
// one clock. Everything that may happen happens in an order that the seed decides. After every step
// the server's books are compared with the world's.
#ifndef HISTOGRAM_TESTS_SIMULATION_WORLD_H_
#define HISTOGRAM_TESTS_SIMULATION_WORLD_H_

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
#include "tests/simulation/calls.h"
#include "tests/simulation/ledger.h"

namespace histogram::server {

class SimulatedJob;

class World {
 public:
  explicit World(uint64_t seed);
  ~World();

  void Run();

  // What came to pass, so that a test can see that all of it does.
  struct Seen {
    uint64_t replied_bytes = 0, failed_bytes = 0;
    uint64_t waited = 0, refused = 0, drained = 0, lost = 0, unread = 0, full_ahead = 0;
  };
  Seen seen() const;

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
  Seen seen_;
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

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_SIMULATION_WORLD_H_
