// Backends that fail, go away or hang.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/batching/batcher_fixture.h"

namespace histogram::server {
namespace {

using Strings = std::vector<std::string>;
using Sizes = std::vector<uint64_t>;

class BatcherRecoveryTest : public BatcherFixture {
 protected:
  BatcherRecoveryTest() {
    limits_.batch_us_max = 1000;
    limits_.split_bytes_min = 64 * kMiB;
  }
  void AddGpuAndCpu(uint32_t lanes = 1) {
    Add({.name = "gpu", .lanes = lanes});
    Add({.name = "cpu", .lanes = lanes, .kind = BackendKind::kCpu});
    puppet(0).set_estimate([](const Workload&) { return 10; });
    puppet(1).set_estimate([](const Workload&) { return 1'000'000; });
  }
  // The GPU's oldest batch outlives the watchdog.
  void Hang() {
    clock_.AdvanceUs(1001);
    batcher().Pump();
  }
};

TEST_F(BatcherRecoveryTest, AFailedBatchRunsOnceMoreElsewhere) {
  AddGpuAndCpu();
  TestJob& job = Enqueue(1000);
  puppet(0).Fail(absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(job.done_count, 0);
  ASSERT_EQ(puppet(1).held(), 1u);
  EXPECT_EQ(batcher().snapshot().charged_bytes, 1100u);
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(job.report.backend, "cpu");
  EXPECT_EQ(observer_.fell_back(), Strings{"gpu>cpu:out_of_memory"});
  EXPECT_EQ(observer_.downs(), Strings{}) << "it is still up";
  EXPECT_EQ(observer_.queued, 1);
}

TEST_F(BatcherRecoveryTest, ALostDevice) {
  AddGpuAndCpu();
  TestJob& job = Enqueue(1000);
  TestJob& queued = Enqueue(500);
  puppet(0).Lose();
  puppet(0).Fail(absl::InternalError("CUDA error 700"));
  EXPECT_EQ(puppet(1).sizes(), Sizes{500}) << "what failed is queued again";
  EXPECT_FALSE(batcher().snapshot().backends[0].up);
  puppet(1).Complete();
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  EXPECT_TRUE(queued.ok());
  EXPECT_EQ(observer_.fell_back(), Strings{"gpu>cpu:device_lost"});
  EXPECT_EQ(observer_.downs(), Strings{"gpu:device_lost"});
}

TEST_F(BatcherRecoveryTest, NothingToFallBackOn) {
  Add({.name = "gpu"});
  TestJob& job = Enqueue(1000);
  TestJob& queued = Enqueue(500);
  puppet().Lose();
  puppet().Fail(absl::InternalError("CUDA error 700"));
  EXPECT_EQ(job.code, absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorDetail(job.status).reason, "DEVICE_LOST");
  EXPECT_NE(std::string(job.status.message()).find("CUDA error 700"), std::string::npos);
  EXPECT_EQ(queued.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorDetail(queued.status).reason, "DEVICE_LOST");
  TestJob& later = Enqueue(1);
  EXPECT_EQ(later.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(observer_.downs(), Strings{"gpu:device_lost"});
}

TEST_F(BatcherRecoveryTest, ABatchThatFailsEverywhere) {
  AddGpuAndCpu();
  TestJob& job = Enqueue(1000);
  puppet(0).Fail(absl::InternalError("one"));
  puppet(1).Fail(absl::InternalError("two"));
  EXPECT_EQ(job.code, absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorDetail(job.status).reason, "BATCH_FAILED");
  TestJob& next = Enqueue(10);
  puppet(0).Complete();
  EXPECT_TRUE(next.ok()) << "both are still up";
}

TEST_F(BatcherRecoveryTest, ABackendThatRefusesWhatWasOnItsWay) {
  AddGpuAndCpu();
  puppet(0).MarkDown("by somebody else");
  TestJob& job = Enqueue(10);
  ASSERT_EQ(puppet(1).held(), 1u);
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  batcher().Pump();
  EXPECT_EQ(observer_.downs(), Strings{"gpu:device_lost"});
}

TEST_F(BatcherRecoveryTest, AFailureInlineGoesElsewhere) {
  limits_.inline_bytes_max = 100;
  Add({.name = "cpu", .kind = BackendKind::kCpu});
  Add({.name = "other"});
  puppet(0).set_execute_status(absl::InternalError("no"));
  TestJob& job = Enqueue(100);
  ASSERT_EQ(puppet(0).held(), 1u) << "a lane tries once more";
  puppet(0).Fail(absl::InternalError("no"));
  ASSERT_EQ(puppet(1).held(), 1u);
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(observer_.fell_back(), Strings{"cpu>other:error"});
}

TEST_F(BatcherRecoveryTest, DeadlinesAndCancelsHoldBeforeARerun) {
  AddGpuAndCpu();
  Enqueue(1);
  TestJob& expires = NewJob(10);
  expires.deadline = clock_.Now() + 1000;
  Enqueue(expires);
  TestJob& cancelled = Enqueue(10);
  TestJob& wanted = Enqueue(10);
  puppet(0).Complete();
  ASSERT_EQ(puppet(0).sizes(), Sizes(3, 10));
  clock_.AdvanceNs(1000);
  cancelled.cancelled = true;
  puppet(0).Fail(absl::InternalError("no"));
  EXPECT_EQ(expires.code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.code, absl::StatusCode::kCancelled);
  EXPECT_EQ(puppet(1).sizes(), Sizes{10});
  puppet(1).Complete();
  EXPECT_TRUE(wanted.ok());
  EXPECT_EQ(observer_.expired, 1);
  EXPECT_EQ(observer_.cancelled, 1);
}

TEST_F(BatcherRecoveryTest, ARerunIsCutToTheOtherLane) {
  Add({.name = "gpu"});
  Add({.name = "small", .lane_bytes = 100});
  TestJob& job = Enqueue(250);
  puppet(0).Fail(absl::InternalError("no"));
  EXPECT_EQ(puppet(1).sizes(), Sizes{100});
  puppet(1).Complete();
  puppet(1).Complete();
  EXPECT_EQ(puppet(1).sizes(), Sizes{50});
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherRecoveryTest, OnePartOfACutPayloadFails) {
  limits_.split_bytes_min = 1 * kMiB;
  AddGpuAndCpu(4);
  TestJob& job = Enqueue(3 * kMiB);
  ASSERT_EQ(puppet(0).held(), 3u);
  puppet(0).Complete(2);
  puppet(0).Fail(absl::InternalError("no"), 1);
  EXPECT_EQ(puppet(1).held(), 0u) << "a lane reads the first part";
  puppet(0).Complete();
  EXPECT_EQ(puppet(1).held(), 3u) << "all of it";
  EXPECT_EQ(job.done_count, 0);
  puppet(1).CompleteAll();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherRecoveryTest, OnePartOfACutPayloadIsLost) {
  limits_.split_bytes_min = 1 * kMiB;
  Add({.name = "gpu", .lanes = 4});
  TestJob& job = Enqueue(3 * kMiB);
  ASSERT_EQ(puppet().held(), 3u);
  puppet().Fail(absl::InternalError("no"), 1);
  EXPECT_EQ(job.done_count, 0) << "lanes read the other parts";
  puppet().Complete();
  EXPECT_EQ(job.done_count, 0);
  puppet().Complete();
  EXPECT_EQ(job.code, absl::StatusCode::kInternal);
}

TEST_F(BatcherRecoveryTest, TheRestOfAPayloadOfWhichAPartWasLostCostsNoWork) {
  Add({.name = "gpu", .lane_bytes = 40 * kKiB});
  TestJob& job = Enqueue(100 * kKiB);
  puppet().Fail(absl::InternalError("no"));
  EXPECT_EQ(job.code, absl::StatusCode::kInternal);
  EXPECT_EQ(puppet().held(), 0u);
}

// What waits for a lane is not looked at each time that another one gets one.
TEST_F(BatcherRecoveryTest, ManyPayloadsFallBackInLinearTime) {
  AddGpuAndCpu();
  Enqueue(1);
  std::vector<TestJob*> jobs;
  for (int i = 0; i < 1000; ++i) jobs.push_back(&Enqueue(100));
  puppet(0).Complete();
  ASSERT_EQ(puppet(0).sizes().size(), 1000u);
  puppet(0).Lose();
  puppet(0).Fail(absl::InternalError("no"));
  const uint64_t before = puppet(1).asked();
  puppet(1).Complete();
  EXPECT_LT(puppet(1).asked() - before, 100u);
  puppet(1).CompleteAll();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
}

// --- Two of three backends are lost at the same time: what they had, and what was on its way from
// one to the other, is counted by the third, once.

class BatcherLossTest : public BatcherFixture {
 protected:
  void AddGpusAndCpu(uint32_t lanes) {
    Add({.name = "cuda:0", .lanes = lanes, .lane_bytes = 4096});
    Add({.name = "cuda:1", .lanes = lanes, .lane_bytes = 4096});
    Add({.name = "cpu", .lanes = lanes, .kind = BackendKind::kCpu});
    for (size_t gpu : {0, 1}) puppet(gpu).set_estimate([](const Workload&) { return 10; });
    puppet(2).set_estimate([](const Workload&) { return 1'000'000; });
  }
  // As after a poisoned context: nothing that a GPU holds or gets is counted any more.
  void LoseBoth() {
    puppet(0).Lose();
    puppet(1).Lose();
  }
  static absl::Status Poisoned() { return absl::UnavailableError("cudaErrorIllegalAddress"); }
};

TEST_F(BatcherLossTest, BothBeforeEitherReturnsItsBatches) {
  AddGpusAndCpu(2);
  for (int i = 0; i < 4; ++i) Enqueue(1000);
  ASSERT_EQ(puppet(0).held(), 2u);
  ASSERT_EQ(puppet(1).held(), 2u);
  LoseBoth();
  for (size_t gpu : {0, 1, 1, 0}) puppet(gpu).Fail(Poisoned());
  EXPECT_EQ(puppet(0).held() + puppet(1).held(), 0u) << "nothing goes to what is lost";
  while (puppet(2).held() > 0) puppet(2).Complete();
  for (const auto& job : jobs_) {
    EXPECT_TRUE(job->ok()) << job->status;
    EXPECT_EQ(job->report.backend, "cpu");
  }
  EXPECT_EQ(observer_.downs(), (Strings{"cuda:0:device_lost", "cuda:1:device_lost"}));
  EXPECT_EQ(observer_.queued, 4);
}

// The first one's batch is given to the second just before that is lost too: it fails once more.
TEST_F(BatcherLossTest, TheSecondWhileItTakesOverFromTheFirst) {
  AddGpusAndCpu(1);
  TestJob& job = Enqueue(1000);
  ASSERT_EQ(puppet(0).held(), 1u);
  puppet(0).Lose();
  puppet(0).Fail(Poisoned());
  ASSERT_EQ(puppet(1).held(), 1u);
  puppet(1).Lose();
  puppet(1).Fail(Poisoned());
  ASSERT_EQ(puppet(2).held(), 1u);
  puppet(2).Complete();
  EXPECT_TRUE(job.ok()) << job.status;
  EXPECT_EQ(observer_.fell_back(),
            (Strings{"cuda:0>cuda:1:device_lost", "cuda:1>cpu:device_lost"}));
}

// A payload in pieces on both, of which the third counts all that was not counted before.
TEST_F(BatcherLossTest, PiecesOnBoth) {
  AddGpusAndCpu(2);
  TestJob& job = Enqueue(32768);  // eight lanes' worth
  ASSERT_GE(puppet(0).held(), 1u);
  ASSERT_GE(puppet(1).held(), 1u);
  puppet(0).Complete();
  LoseBoth();
  while (puppet(0).held() + puppet(1).held() > 0) {
    for (size_t gpu : {1, 0}) {
      if (puppet(gpu).held() > 0) puppet(gpu).Fail(Poisoned());
    }
  }
  while (puppet(2).held() > 0) puppet(2).Complete();
  EXPECT_TRUE(job.ok()) << job.status;
}

// --- The watchdog

TEST_F(BatcherRecoveryTest, AHangingBatchIsLeftBehind) {
  AddGpuAndCpu();
  TestJob& job = Enqueue(1000);
  const std::weak_ptr<TestPayload> payload = job.payload();
  clock_.AdvanceUs(1000);
  EXPECT_EQ(batcher().Pump(), clock_.Now() + 1);
  EXPECT_EQ(puppet(0).marked_down(), "") << "not yet";
  Hang();
  EXPECT_NE(puppet(0).marked_down(), "");
  EXPECT_EQ(observer_.downs(), Strings{"gpu:watchdog"});
  EXPECT_EQ(observer_.fell_back(), Strings{"gpu>cpu:watchdog"});
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  EXPECT_TRUE(batcher().WaitIdle(clock_.Now())) << "nothing waits for the lane that hangs";
  EXPECT_FALSE(payload.expired()) << "which may still read the payload";
  EXPECT_EQ(batcher().snapshot().backends[0].lanes_busy, 1u);
  puppet(0).Complete();  // reads the payload, late
  EXPECT_TRUE(payload.expired());
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(job.done_count, 1);
  EXPECT_EQ(batcher().snapshot().backends[0].lanes_busy, 0u);
  EXPECT_EQ(observer_.batches().size(), 1u) << "the late one is not reported";
}

TEST_F(BatcherRecoveryTest, TheDestructorWaitsForALaneThatHangs) {
  AddGpuAndCpu();
  TestJob& job = Enqueue(1000);
  Hang();
  puppet(1).Complete();
  EXPECT_TRUE(job.ok());
  std::thread lane([&] { puppet(0).Complete(); });
  batcher_.reset();
  EXPECT_EQ(puppet(0).held(), 0u);
  lane.join();
}

TEST_F(BatcherRecoveryTest, AHangWithNothingToFallBackOn) {
  Add({.name = "gpu"});
  TestJob& job = Enqueue(100);
  TestJob& queued = Enqueue(100);
  Hang();
  EXPECT_EQ(job.code, absl::StatusCode::kInternal);
  EXPECT_EQ(GetErrorDetail(job.status).reason, "DEVICE_LOST");
  EXPECT_EQ(queued.code, absl::StatusCode::kUnavailable);
  puppet().Complete();
}

TEST_F(BatcherRecoveryTest, APartThatHangs) {
  limits_.split_bytes_min = 1 * kMiB;
  AddGpuAndCpu(4);
  TestJob& job = Enqueue(3 * kMiB);
  ASSERT_EQ(puppet(0).held(), 3u);
  puppet(0).Complete();
  puppet(0).Complete();
  Hang();
  ASSERT_GE(puppet(1).held(), 1u);
  puppet(1).CompleteAll();
  EXPECT_TRUE(job.ok());
  puppet(0).Complete();
  EXPECT_TRUE(job.ok());
}

// A clock that goes on by itself, and a minute before one of its readings by the batcher's thread.
// Whichever of them the standstill falls before, the thread notices it.
class StandstillClock final : public Clock {
 public:
  TimeNs Now() const override {
    if (std::this_thread::get_id() != owner_ && left_.fetch_sub(1) == 1) {
      ahead_ = 60'000'000'000;
      stood_still_ = true;
    }
    return Clock::Monotonic().Now() + ahead_.load();
  }
  // Before the n-th reading by another thread from now on.
  void StandStillBefore(int n) { left_ = n; }
  bool stood_still() const { return stood_still_; }

 private:
  const std::thread::id owner_ = std::this_thread::get_id();
  mutable std::atomic<int64_t> ahead_{0};
  mutable std::atomic<int> left_{0};
  mutable std::atomic<bool> stood_still_{false};
};

TEST_F(BatcherRecoveryTest, TheThreadForgivesAStandstillAtAnyMoment) {
  limits_.batch_us_max = 40'000'000;  // less than it stands still; the thread looks each second
  AddGpuAndCpu();
  for (int reading = 1; reading <= 3; ++reading) {
    StandstillClock clock;
    Batcher with_thread({&puppet(0), &puppet(1)}, limits_, clock, observer_);
    TestJob job(100);
    ASSERT_TRUE(with_thread.Enqueue(&job, WhenFull::kRefuse).ok());
    clock.StandStillBefore(reading);
    const TimeNs until = Clock::Monotonic().Now() + 30'000'000'000;
    while (!clock.stood_still() && Clock::Monotonic().Now() < until) std::this_thread::yield();
    EXPECT_TRUE(clock.stood_still());
    EXPECT_FALSE(with_thread.WaitIdle(clock.Now() + 1'200'000'000));
    EXPECT_EQ(observer_.downs(), Strings{}) << "before reading " << reading;
    if (puppet(0).held() == 0) break;  // it was taken away: the rest says nothing
    puppet(0).Complete();
    EXPECT_TRUE(with_thread.WaitIdle(kNever));
    EXPECT_TRUE(job.ok());
  }
}

}  // namespace
}  // namespace histogram::server
