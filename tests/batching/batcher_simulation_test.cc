// Thousands of random schedules, each from one seed: arrivals, completions, failures, hangs,
// cancels, clock jumps. After every step the batcher's books are compared with the world's.
//
// A failure names its seed; BATCHER_SIMULATION_SEED=N runs that one alone, and
// BATCHER_SIMULATION_RUNS=N more of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "server/batching/batcher.h"
#include "tests/batching/fake_clock.h"
#include "tests/batching/puppet_backend.h"
#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr uint64_t kRunsDefault = 200;  // one thread: nothing to find but time
#else
constexpr uint64_t kRunsDefault = 2000;
#endif
constexpr int kSteps = 200;

class World;

// Deletes itself when it is done, so that AddressSanitizer sees whoever touches it later.
class SimulatedJob final : public Job {
 public:
  SimulatedJob(World& world, uint64_t payload_bytes, uint64_t number)
      : world_(world),
        number_(number),
        payload_(std::make_shared<TestPayload>(payload_bytes, number)) {
    fragments = payload_->fragments;
    bytes = payload_bytes;
    counts.fill(99);  // must be overwritten
  }
  std::shared_ptr<const void> SharePayload() override { return shares ? payload_ : nullptr; }
  void Done(const absl::Status& status) override;

  uint64_t number() const { return number_; }
  const std::shared_ptr<TestPayload>& payload() const { return payload_; }

  bool shares = true;
  bool told_to_wait = false;
  // Whether it waits for room as of now.
  bool waiting() const { return told_to_wait && !JobTestPeer::Charged(*this); }

 private:
  World& world_;
  const uint64_t number_;
  std::shared_ptr<TestPayload> payload_;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    MakeLimits();
    MakeBackends();
    std::vector<Backend*> backends;
    for (const auto& each : puppets_) backends.push_back(each.get());
    batcher_ = std::make_unique<Batcher>(backends, limits_, clock_, observer_, false);
  }

  void Run() {
    for (int step = 0; step < kSteps && !testing::Test::HasFailure(); ++step) {
      Step();
      Check();
    }
    Finish();
  }

  void OnDone(SimulatedJob& job, const absl::Status& status) {
    EXPECT_EQ(live_.erase(job.number()), 1u) << "done twice, or never taken";
    CheckOutcome(job, status);
    ArriveFromCallback();
  }

 private:
  bool Chance(uint32_t percent) { return random_() % 100 < percent; }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  void MakeLimits() {
    limits_.queue_bytes_max = 4000 + Below(30000);
    limits_.batch_payloads_max = static_cast<uint32_t>(1 + Below(8));
    limits_.batch_bytes_max = 500 + Below(6000);
    limits_.batch_delay_us_max = Chance(30) ? 1 + Below(500) : 0;
    limits_.batch_us_max = Chance(10) ? 0 : 2000;
    limits_.inline_bytes_max = Chance(50) ? Below(600) : 0;
    limits_.split_bytes_min = 300 + Below(4000);
    limits_.small_bytes_max = Below(1500);
    limits_.deadline_margin_us = Below(300);
  }

  void MakeBackends() {
    const uint64_t count = 1 + Below(3);
    for (uint64_t i = 0; i < count; ++i) {
      PuppetOptions options;
      options.name = "backend" + std::to_string(i);
      options.lanes = static_cast<uint32_t>(1 + Below(4));
      if (Chance(50)) options.lane_bytes = 200 + Below(4000);
      if (Chance(50)) options.lane_payloads = static_cast<uint32_t>(1 + Below(6));
      options.kind = Chance(50) ? BackendKind::kCpu : BackendKind::kGpu;
      options.clock = &clock_;
      PuppetBackend& puppet = *puppets_.emplace_back(std::make_unique<PuppetBackend>(options));
      const uint64_t fixed = Below(100'000), per_byte = Below(50);
      puppet.set_estimate(
          [fixed, per_byte](const Workload& w) { return fixed + per_byte * w.batch_bytes; });
      // Now and then an inline count fails, or something happens while it runs.
      puppet.set_on_execute([this, &puppet] {
        const bool fails = Chance(5);
        failures_ += fails ? 1 : 0;
        puppet.set_execute_status(fails ? absl::InternalError("inline") : absl::OkStatus());
        if (Chance(10)) Pass();
        ArriveFromCallback();
      });
    }
  }

  // --- What may happen

  void Step() {
    const uint64_t what = Below(100);
    if (what < 40) {
      Arrive();
    } else if (what < 70) {
      Return(false);
    } else if (what < 74) {
      Return(true);
    } else if (what < 80) {
      Cancel();
    } else if (what < 95) {
      Pass();
    } else if (what < 96 && Chance(10)) {
      draining_ = true;
      batcher_->Drain();
    } else if (what < 97 && !calm_ && Chance(15)) {
      ++failures_;
      puppets_[Below(puppets_.size())]->Lose();
    } else {
      batcher_->Pump();
    }
  }

  void ArriveFromCallback() {
    ++callbacks_;
    if (Chance(5)) Arrive();
    --callbacks_;
  }

  void Arrive() {
    if (++depth_ <= 3) DoArrive();
    --depth_;
  }

  void DoArrive() {
    const uint64_t ranges[] = {1, 100, 1000, 8000};
    auto owned = std::make_unique<SimulatedJob>(*this, Below(ranges[Below(4)]), ++numbers_);
    SimulatedJob* job = owned.get();
    job->charge_bytes = job->bytes + Below(200);
    job->caller = Below(4);
    job->shares = Chance(80);
    job->for_lane = Chance(20);
    if (Chance(15)) job->deadline = clock_.Now() + static_cast<TimeNs>(Below(1'500'000));
    if (Chance(3)) job->cancelled = true;
    payloads_.push_back(job->payload());
    const bool waits = Chance(40);
    const Caller caller = Look(job->caller);
    const Batcher::Snapshot before = batcher_->snapshot();
    const uint64_t charge = job->charge_bytes;

    // It may be done and gone before Enqueue has returned.
    const uint64_t number = job->number();
    live_.emplace(number, job);
    const auto outcome =
        batcher_->Enqueue(job, waits ? Batcher::WhenFull::kWait : Batcher::WhenFull::kRefuse);
    if (!outcome.ok()) {
      EXPECT_EQ(live_.erase(number), 1u) << "done, although it was refused";
      CheckRefusal(outcome.status(), charge, before, caller, waits);
      return;
    }
    owned.release();  // NOLINT(bugprone-unused-return-value): it deletes itself
    if (*outcome == Batcher::Outcome::kCounted) {
      EXPECT_TRUE(live_.contains(number)) << "counted where it arrived, and Done was called";
      EXPECT_FALSE(job->for_lane);
      job->Done(absl::OkStatus());
      return;
    }
    if (*outcome == Batcher::Outcome::kQueued && callbacks_ == 0) {
      EXPECT_EQ(caller.waiting, 0u) << "overtook those of its caller that wait";
    }
    if (*outcome == Batcher::Outcome::kWaiting) {
      EXPECT_TRUE(waits);
      if (live_.contains(number)) job->told_to_wait = true;
    }
  }

  void Return(bool fail) {
    std::vector<PuppetBackend*> holding;
    for (const auto& each : puppets_) {
      if (each->held() > 0) holding.push_back(each.get());
    }
    if (holding.empty()) return;
    PuppetBackend& puppet = *holding[Below(holding.size())];
    const size_t index = Below(puppet.held());
    if (!fail) {
      if (!puppet.up()) ++failures_;  // it may have been refused
      puppet.Complete(index);
      return;
    }
    ++failures_;
    const absl::Status statuses[] = {absl::InternalError("x"), absl::ResourceExhaustedError("y"),
                                     absl::DeadlineExceededError("z")};
    puppet.Fail(statuses[Below(3)], index);
  }

  void Cancel() {
    if (live_.empty()) return;
    auto job = live_.begin();
    std::advance(job, static_cast<std::ptrdiff_t>(Below(live_.size())));
    job->second->cancelled = true;
  }

  // Time passes, rarely so much that lanes are given up.
  void Pass() {
    const bool jump = !calm_ && Chance(3);
    clock_.AdvanceNs(static_cast<int64_t>(Below(jump ? 5'000'000 : 200'000)));
    if (jump) ++failures_;
    if (Chance(70)) {
      batcher_->Pump();
      CheckWatchdog();
    }
  }

  // --- What must hold

  struct Caller {
    uint64_t held_bytes = 0, waiting = 0;
  };
  Caller Look(uint64_t id) const {
    Caller caller;
    for (const auto& [number, job] : live_) {
      if (job->caller != id) continue;
      job->waiting() ? ++caller.waiting : caller.held_bytes += job->charge_bytes;
    }
    return caller;
  }

  void CheckRefusal(const absl::Status& status, uint64_t charge, const Batcher::Snapshot& before,
                    const Caller& caller, bool waits) {
    const std::string reason = GetErrorDetail(status).reason;
    if (draining_) {
      EXPECT_EQ(reason, "DRAINING");
    } else if (charge > limits_.queue_bytes_max) {
      EXPECT_EQ(reason, "PAYLOAD_TOO_LARGE");
    } else {
      EXPECT_EQ(reason, "QUEUE_FULL");
      EXPECT_FALSE(waits);
      const uint64_t after = before.charged_bytes + charge;
      EXPECT_TRUE(before.waiting > 0 || after > limits_.queue_bytes_max ||
                  caller.held_bytes + charge > 2 * (limits_.queue_bytes_max - after));
    }
  }

  void CheckOutcome(const SimulatedJob& job, const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kOk:
        EXPECT_EQ(job.counts, job.payload()->counts) << "of payload " << job.number();
        EXPECT_GT(job.report.payloads, 0u);
        break;
      case absl::StatusCode::kCancelled:
        EXPECT_TRUE(job.cancelled);
        break;
      case absl::StatusCode::kDeadlineExceeded:
        EXPECT_GE(clock_.Now(), job.deadline);
        break;
      case absl::StatusCode::kInternal:
        EXPECT_GT(failures_, 0) << "nothing ever failed";
        break;
      case absl::StatusCode::kUnavailable:
        EXPECT_FALSE(AnyUp());
        break;
      default:
        ADD_FAILURE() << status;
    }
  }

  // REQUIRES: Pump was called as of now.
  void CheckWatchdog() const {
    if (limits_.batch_us_max == 0) return;
    for (const auto& each : puppets_) {
      for (size_t i = 0; i < each->held(); ++i) {
        const auto us = static_cast<uint64_t>(clock_.Now() - each->held_since(i)) / 1000;
        EXPECT_TRUE(!each->up() || us <= limits_.batch_us_max) << "a hanging lane is overlooked";
      }
    }
  }

  bool AnyHeld() const {
    return std::any_of(puppets_.begin(), puppets_.end(),
                       [](const auto& p) { return p->held() > 0; });
  }

  bool AnyUp() const {
    return std::any_of(puppets_.begin(), puppets_.end(), [](const auto& p) { return p->up(); });
  }

  void Check() {
    const Batcher::Snapshot snapshot = batcher_->snapshot();
    uint64_t charged = 0, waiting = 0;
    std::map<uint64_t, uint64_t> of_caller;  // jobs that wait
    for (const auto& [number, job] : live_) {
      if (job->waiting()) {
        ++waiting;
        ++of_caller[job->caller];
        continue;
      }
      charged += job->charge_bytes;
      EXPECT_TRUE(!job->told_to_wait || of_caller[job->caller] == 0)
          << "of one caller first come, first served";
    }
    EXPECT_EQ(snapshot.queue_payloads + snapshot.in_flight + snapshot.waiting, live_.size());
    EXPECT_EQ(snapshot.waiting, waiting);
    EXPECT_EQ(snapshot.charged_bytes, charged);
    EXPECT_LE(snapshot.charged_bytes, limits_.queue_bytes_max);
    EXPECT_TRUE(snapshot.queue_payloads > 0 || snapshot.queue_bytes == 0);
    size_t held = 0;
    for (size_t i = 0; i < puppets_.size(); ++i) {
      EXPECT_EQ(snapshot.backends[i].lanes_busy, puppets_[i]->held());
      held += puppets_[i]->held();
    }
    // Something that waits waits for a batch, or for a time.
    if (held == 0 && !live_.empty()) {
      const TimeNs wake_at = batcher_->Pump();
      EXPECT_TRUE(wake_at != kNever || live_.empty() || AnyHeld()) << "nothing will ever happen";
      EXPECT_TRUE(limits_.batch_delay_us_max > 0 || live_.empty() || AnyHeld()) << "idle lanes";
    }
    EXPECT_TRUE(!live_.empty() || batcher_->WaitIdle(clock_.Now()));
  }

  // Lets everything come to its end; no schedule may leave anything stuck.
  void Finish() {
    for (int round = 0; round < 10'000 && !live_.empty(); ++round) {
      clock_.AdvanceUs(1 + static_cast<int64_t>(Below(300)));
      batcher_->Pump();
      if (Chance(90)) Return(false);
    }
    EXPECT_TRUE(live_.empty()) << live_.size() << " jobs are stuck";
    if (live_.empty()) {
      Check();
      if (Chance(50)) batcher_.reset();  // some lanes hang for longer than it lives
    }
    for (const auto& each : puppets_) each->CompleteAll();
    batcher_.reset();
    for (const auto& payload : payloads_) EXPECT_TRUE(payload.expired()) << "a payload leaked";
  }

  std::minstd_rand random_;
  FakeClock clock_;
  Observer& observer_ = Observer::None();
  BatchingLimits limits_;
  std::vector<std::unique_ptr<PuppetBackend>> puppets_;
  std::unique_ptr<Batcher> batcher_;
  std::map<uint64_t, SimulatedJob*> live_;  // taken and not done, by number
  std::vector<std::weak_ptr<TestPayload>> payloads_;
  uint64_t numbers_ = 0;
  int depth_ = 0, callbacks_ = 0, failures_ = 0;
  bool draining_ = false;
  const bool calm_ = Chance(50);  // no backend is lost, no lane hangs
};

void SimulatedJob::Done(const absl::Status& status) {
  world_.OnDone(*this, status);
  delete this;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(BatcherSimulationTest, AnySchedule) {
  const uint64_t only = FromEnvironment("BATCHER_SIMULATION_SEED", 0);
  const uint64_t runs = FromEnvironment("BATCHER_SIMULATION_RUNS", kRunsDefault);
  const uint64_t first = only > 0 ? only : 1;
  const uint64_t last = only > 0 ? only : runs;
  for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    SCOPED_TRACE("BATCHER_SIMULATION_SEED=" + std::to_string(seed));
    World(seed).Run();
  }
}

}  // namespace
}  // namespace histogram::server
