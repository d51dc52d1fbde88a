// The batcher on its straight way: placing, batching, cutting, refusing, waiting, dropping,
// draining.
#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/batching/batcher_fixture.h"

namespace histogram::server {
namespace {

using Sizes = std::vector<uint64_t>;

class BatcherTest : public BatcherFixture {};

TEST_F(BatcherTest, ALonePayloadLeavesAtOnce) {
  Add({});
  TestJob& job = Enqueue(1000);
  ASSERT_EQ(puppet().held(), 1u);
  EXPECT_EQ(job.done_count, 0);
  const Batcher::Snapshot snapshot = batcher().snapshot();
  EXPECT_EQ(snapshot.in_flight, 1u);
  EXPECT_EQ(snapshot.charged_bytes, 1100u);
  ASSERT_EQ(snapshot.backends.size(), 1u);
  EXPECT_EQ(snapshot.backends[0].name, "puppet");
  EXPECT_EQ(snapshot.backends[0].lanes_busy, 1u);
  puppet().Complete();
  EXPECT_TRUE(job.ok()) << job.status;
  EXPECT_EQ(job.report.backend, "puppet");
  EXPECT_EQ(job.report.payloads, 1u);
  ASSERT_EQ(observer_.batches().size(), 1u);
  EXPECT_EQ(observer_.batches()[0].closed_by, ClosedBy::kIdle);
  EXPECT_EQ(observer_.batches()[0].bytes, 1000u);
  EXPECT_EQ(observer_.queued, 1);
}

TEST_F(BatcherTest, BatchesFormWhileLanesAreBusy) {
  Add({});
  std::vector<TestJob*> jobs = {&Enqueue(10)};
  for (int i = 0; i < 20; ++i) jobs.push_back(&Enqueue(100));
  EXPECT_EQ(puppet().held(), 1u);
  EXPECT_EQ(batcher().snapshot().queue_payloads, 20u);
  EXPECT_EQ(batcher().snapshot().queue_bytes, 2000u);
  clock_.AdvanceUs(7);
  puppet().Complete();
  ASSERT_EQ(puppet().held(), 1u);
  EXPECT_EQ(puppet().sizes(), Sizes(20, 100));
  puppet().Complete();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
  EXPECT_EQ(jobs[0]->queue_ns, 0u);
  EXPECT_EQ(jobs[1]->queue_ns, 7000u);
}

TEST_F(BatcherTest, WhatEntersTogetherLeavesTogether) {
  limits_.queue_bytes_max = 3000;
  Add({.lanes = 2});
  std::vector<Batcher::Arrival> arrivals;
  const auto add = [&](uint64_t bytes, WhenFull when_full) {
    arrivals.push_back({.job = &NewJob(bytes), .when_full = when_full});
  };
  for (const uint64_t bytes : {100, 200, 300, 3000}) add(bytes, WhenFull::kRefuse);
  add(1500, WhenFull::kWait);
  add(100, WhenFull::kWait);
  add(100, WhenFull::kRefuse);
  batcher().Enqueue(absl::MakeSpan(arrivals));
  ASSERT_EQ(puppet().held(), 1u) << "another lane is free";
  EXPECT_EQ(puppet().sizes(), (Sizes{100, 200, 300}));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(arrivals[i].outcome.value(), Outcome::kQueued) << i;
  for (const size_t i : {4, 5}) EXPECT_EQ(arrivals[i].outcome.value(), Outcome::kWaiting) << i;
  EXPECT_EQ(GetErrorDetail(arrivals[3].outcome.status()).reason, "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(GetErrorDetail(arrivals[6].outcome.status()).reason, "QUEUE_FULL");
  puppet().CompleteAll();
  for (const size_t i : {0, 1, 2, 4, 5}) EXPECT_TRUE(jobs_[i]->ok()) << i;
}

TEST_F(BatcherTest, ABatchIsLimitedByBytesAndPayloads) {
  limits_.batch_bytes_max = 100 * kKiB;
  limits_.batch_payloads_max = 4;
  Add({});
  Enqueue(1);
  for (int i = 0; i < 6; ++i) Enqueue(10 * kKiB);
  for (int i = 0; i < 3; ++i) Enqueue(40 * kKiB);
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), Sizes(4, 10 * kKiB));
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), (Sizes{10 * kKiB, 10 * kKiB, 40 * kKiB, 40 * kKiB}));
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), Sizes{40 * kKiB});
  puppet().Complete();
  EXPECT_EQ(observer_.batches()[1].closed_by, ClosedBy::kBytes);
  EXPECT_EQ(observer_.batches()[2].closed_by, ClosedBy::kBytes);
  EXPECT_EQ(observer_.batches()[3].closed_by, ClosedBy::kIdle);
}

TEST_F(BatcherTest, ABatchHoldsOneSizeClass) {
  Add({});
  Enqueue(1);
  for (int i = 0; i < 3; ++i) {
    Enqueue(100 * kKiB);
    Enqueue(100);
  }
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), Sizes(3, 100));
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), Sizes(3, 100 * kKiB));
  puppet().CompleteAll();
}

// --- On the calling thread

TEST_F(BatcherTest, SmallPayloadsAreCountedWhereTheyArrive) {
  limits_.inline_bytes_max = 1000;
  Add({.kind = BackendKind::kCpu});
  EXPECT_TRUE(Enqueue(NewJob(1000), Outcome::kCounted).ok());
  EXPECT_TRUE(Enqueue(NewJob(0), Outcome::kCounted).ok());
  EXPECT_EQ(puppet().executed_inline(), 2u);
  EXPECT_EQ(observer_.batches()[0].closed_by, ClosedBy::kInline);
  TestJob& larger = Enqueue(1001);
  EXPECT_EQ(puppet().held(), 1u) << "too large for the calling thread";
  TestJob& behind = Enqueue(1000);
  EXPECT_EQ(puppet().executed_inline(), 2u) << "no credit is left";
  puppet().Complete();
  puppet().Complete();
  EXPECT_TRUE(larger.ok());
  EXPECT_TRUE(behind.ok());
}

TEST_F(BatcherTest, LanesCountAllPartsOfALargePayload) {
  limits_.inline_bytes_max = kMiB;
  limits_.split_bytes_min = 2 * kMiB;
  Add({.lanes = 4, .kind = BackendKind::kCpu});
  TestJob& job = Enqueue(6 * kMiB);
  EXPECT_EQ(puppet().held(), 3u);
  EXPECT_EQ(puppet().executed_inline(), 0u);
  puppet().CompleteAll();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherTest, WhatIsForALaneIsNotCountedWhereItArrives) {
  limits_.inline_bytes_max = kMiB;
  limits_.split_bytes_min = 2 * kMiB;
  Add({.lanes = 4, .kind = BackendKind::kCpu});
  for (const uint64_t bytes : {uint64_t{1000}, 6 * kMiB}) {
    TestJob& job = NewJob(bytes);
    job.for_lane = true;
    Enqueue(job);
    EXPECT_EQ(puppet().held(), bytes < kMiB ? 1u : 3u);
    puppet().CompleteAll();
    EXPECT_TRUE(job.ok());
  }
  EXPECT_EQ(puppet().executed_inline(), 0u);
}

TEST_F(BatcherTest, WhatIsCountedWhereItArrivesIsWaitedFor) {
  limits_.inline_bytes_max = 1000;
  Add({.kind = BackendKind::kCpu});
  puppet().set_on_execute([&] {
    EXPECT_EQ(batcher().snapshot().in_flight, 1u);
    EXPECT_EQ(batcher().snapshot().backends[0].lanes_busy, 0u) << "it takes no lane";
    batcher().Drain();
    EXPECT_FALSE(batcher().WaitIdle(clock_.Now()));
  });
  Enqueue(NewJob(10), Outcome::kCounted);
  EXPECT_TRUE(batcher().WaitIdle(clock_.Now()));
  Refused(NewJob(10), absl::StatusCode::kUnavailable, WhenFull::kRefuse);
}

TEST_F(BatcherTest, NotInlineFromWithinDone) {
  limits_.inline_bytes_max = 1000;
  Add({.kind = BackendKind::kCpu});
  TestJob* next = nullptr;
  TestJob& job = NewJob(1001);
  job.on_done = [&] { next = &Enqueue(10); };
  Enqueue(job);
  puppet().Complete();
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(puppet().executed_inline(), 0u);
  ASSERT_EQ(puppet().held(), 1u);
  puppet().Complete();
  EXPECT_TRUE(next->ok());
}

TEST_F(BatcherTest, DoneMayDeleteTheJobAndEnqueueItAgain) {
  struct SelfDeleting : TestJob {
    using TestJob::TestJob;
    void Done(const absl::Status& result) override {
      TestJob::Done(result);
      delete this;
    }
  };
  Add({});
  auto owned = std::make_unique<SelfDeleting>(100);
  ASSERT_TRUE(batcher().Enqueue(owned.release(), WhenFull::kRefuse).ok());
  puppet().Complete();

  struct Repeating : Job {
    Batcher* batcher = nullptr;
    int left = 3;
    void Done(const absl::Status& result) override {
      EXPECT_TRUE(result.ok());
      if (--left == 0) return;
      EXPECT_TRUE(batcher->Enqueue(this, WhenFull::kRefuse).ok());
    }
  };
  Repeating repeating;
  repeating.batcher = &batcher();
  ASSERT_TRUE(batcher().Enqueue(&repeating, WhenFull::kRefuse).ok());
  for (int i = 0; i < 3; ++i) puppet().Complete();
  EXPECT_EQ(repeating.left, 0);
}

// --- Delay

TEST_F(BatcherTest, ADelayFillsTheBatch) {
  limits_.batch_delay_us_max = 500;
  Add({});
  Enqueue(10);
  EXPECT_EQ(batcher().Pump(), clock_.Now() + 500'000);
  clock_.AdvanceUs(300);
  Enqueue(10);
  EXPECT_EQ(puppet().held(), 0u);
  clock_.AdvanceUs(199);
  batcher().Pump();
  EXPECT_EQ(puppet().held(), 0u);
  clock_.AdvanceUs(1);
  batcher().Pump();
  EXPECT_EQ(puppet().sizes(), Sizes(2, 10));
  puppet().Complete();
}

TEST_F(BatcherTest, ADelayOfOneClassDoesNotHoldUpTheOther) {
  limits_.batch_delay_us_max = 1000;
  limits_.batch_bytes_max = 400 * kKiB;
  Add({});
  Enqueue(10);
  for (int i = 0; i < 4; ++i) Enqueue(100 * kKiB);
  EXPECT_EQ(puppet().sizes(), Sizes(4, 100 * kKiB));
  EXPECT_EQ(batcher().snapshot().queue_payloads, 1u);
  clock_.AdvanceUs(1000);
  puppet().CompleteAll();
}

TEST_F(BatcherTest, ExpiredAndCancelledPayloadsCostNoWork) {
  Add({});
  Enqueue(1);
  TestJob& expires = NewJob(100);
  expires.deadline = clock_.Now() + 1000;
  Enqueue(expires);
  TestJob& cancelled = Enqueue(100);
  TestJob& wanted = Enqueue(100);
  cancelled.cancelled = true;
  clock_.AdvanceNs(1000);
  puppet().Complete();
  EXPECT_EQ(expires.code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.code, absl::StatusCode::kCancelled);
  EXPECT_EQ(puppet().sizes(), Sizes{100});
  puppet().Complete();
  EXPECT_TRUE(wanted.ok());
  EXPECT_EQ(observer_.expired, 1);
  EXPECT_EQ(observer_.cancelled, 1);
}

TEST_F(BatcherTest, DeadOnArrival) {
  limits_.inline_bytes_max = 1000;
  Add({.kind = BackendKind::kCpu});
  TestJob& expired = NewJob(10);
  expired.deadline = clock_.Now();
  Enqueue(expired);
  EXPECT_EQ(expired.code, absl::StatusCode::kDeadlineExceeded);
  TestJob& cancelled = NewJob(10);
  cancelled.cancelled = true;
  Enqueue(cancelled);
  EXPECT_EQ(cancelled.code, absl::StatusCode::kCancelled);
  EXPECT_EQ(puppet().executed_inline(), 0u);
}

TEST_F(BatcherTest, ACancelWhileALaneReadsWaitsForTheLane) {
  Add({});
  TestJob& job = Enqueue(1000);
  job.cancelled = true;
  batcher().Pump();
  EXPECT_EQ(job.done_count, 0) << "the lane reads it";
  puppet().Complete();
  EXPECT_TRUE(job.ok());
}

// --- Refusing and waiting

TEST_F(BatcherTest, AFullQueueRefuses) {
  limits_.queue_bytes_max = 10000;
  Add({});
  Enqueue(4900, 1);
  Enqueue(4900, 2);
  EXPECT_EQ(batcher().snapshot().charged_bytes, 10000u);
  TestJob& refused = NewJob(0, 3);
  const ErrorDetail detail =
      Refused(refused, absl::StatusCode::kResourceExhausted, WhenFull::kRefuse);
  EXPECT_EQ(detail.reason, "QUEUE_FULL");
  EXPECT_EQ(detail.field, "");
  EXPECT_EQ(detail.limit, 10000u);
  ASSERT_TRUE(detail.retry_after_ms.has_value());
  EXPECT_EQ(*detail.retry_after_ms, 1u);
  EXPECT_NE(last_message_.find("10000 of 10000 bytes"), std::string::npos) << last_message_;
  Refused(NewJob(0, 1), absl::StatusCode::kResourceExhausted, WhenFull::kRefuse);
  EXPECT_NE(last_message_.find("5000 of them by this caller"), std::string::npos) << last_message_;
  puppet().Complete();
  Enqueue(refused);
  puppet().CompleteAll();
  EXPECT_TRUE(refused.ok());
}

TEST_F(BatcherTest, TheRetryHintGrowsWithWhatIsQueuedUpToASecond) {
  limits_.queue_bytes_max = 6'000'000'000;
  Add({.lanes = 2});
  TestJob& refused = NewJob(1, 9);
  refused.charge_bytes = limits_.queue_bytes_max;
  for (const uint64_t charge : {600'000'000, 2'000'000'000}) {
    TestJob& job = NewJob(1, charge);
    job.charge_bytes = charge;
    Enqueue(job);
    const ErrorDetail detail =
        Refused(refused, absl::StatusCode::kResourceExhausted, WhenFull::kRefuse);
    EXPECT_EQ(detail.retry_after_ms, charge < 1'000'000'000 ? 300u : 1000u);
  }
  puppet().CompleteAll();
}

TEST_F(BatcherTest, APayloadThatNeverFitsIsRefusedAlsoWhenItWouldWait) {
  limits_.queue_bytes_max = 1000;
  Add({});
  TestJob& job = NewJob(901);
  for (const auto when_full : {WhenFull::kRefuse, WhenFull::kWait}) {
    const ErrorDetail detail = Refused(job, absl::StatusCode::kResourceExhausted, when_full);
    EXPECT_EQ(detail.reason, "PAYLOAD_TOO_LARGE");
    EXPECT_EQ(detail.field, "payload");
    EXPECT_EQ(detail.limit, 1000u);
    EXPECT_FALSE(detail.retry_after_ms.has_value()) << "a retry would not help";
  }
  Enqueue(900);
  puppet().Complete();
}

TEST_F(BatcherTest, StreamsOfOneCallerWaitFirstComeFirstServed) {
  limits_.queue_bytes_max = 1000;
  Add({});
  TestJob& first = Enqueue(800);
  std::vector<int> order;
  std::vector<TestJob*> waiting;
  const std::vector<uint64_t> sizes = {700, 50, 100, 200};
  for (int i = 0; i < 4; ++i) {
    TestJob& job = NewJob(sizes[static_cast<size_t>(i)]);
    job.on_done = [&order, i] { order.push_back(i); };
    waiting.push_back(&Enqueue(job, Outcome::kWaiting));
  }
  EXPECT_EQ(batcher().snapshot().waiting, 4u) << "a small one does not overtake";
  TestJob& unary = NewJob(0);
  EXPECT_EQ(Refused(unary, absl::StatusCode::kResourceExhausted, WhenFull::kRefuse).reason,
            "QUEUE_FULL")
      << "it would fit, but others were first";
  puppet().Complete();
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(batcher().snapshot().waiting, 3u);
  EXPECT_EQ(batcher().snapshot().charged_bytes, 800u) << "the first is in";
  puppet().Complete();
  EXPECT_EQ(batcher().snapshot().waiting, 0u);
  while (puppet().held() > 0) puppet().Complete();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  for (const TestJob* job : waiting) EXPECT_TRUE(job->ok());
}

TEST_F(BatcherTest, ACallerThatKeepsTheQueueFullKeepsNobodyElseOut) {
  limits_.queue_bytes_max = 3000;
  Add({});
  for (int i = 0; i < 2; ++i) Enqueue(900, 1);
  for (int i = 0; i < 8; ++i) Enqueue(NewJob(900, 1), Outcome::kWaiting);
  TestJob& other = Enqueue(500, 2);
  while (puppet().held() > 0) puppet().Complete();
  EXPECT_TRUE(other.ok());
}

TEST_F(BatcherTest, AJobThatFitsDoesNotWait) {
  Add({});
  TestJob& job = NewJob(10);
  EXPECT_EQ(*batcher().Enqueue(&job, WhenFull::kWait), Outcome::kQueued);
  puppet().Complete();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherTest, AWaitingJobThatNobodyWantsIsDropped) {
  limits_.queue_bytes_max = 1000;
  Add({});
  Enqueue(400);
  TestJob& cancelled = Enqueue(NewJob(900), Outcome::kWaiting);
  TestJob& expires = NewJob(900);
  expires.deadline = clock_.Now() + 5;
  Enqueue(expires, Outcome::kWaiting);
  TestJob& wanted = Enqueue(NewJob(0), Outcome::kWaiting);
  EXPECT_EQ(batcher().snapshot().waiting, 3u);
  cancelled.cancelled = true;
  clock_.AdvanceNs(5);
  batcher().Pump();
  EXPECT_EQ(cancelled.code, absl::StatusCode::kCancelled);
  EXPECT_EQ(expires.code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(batcher().snapshot().waiting, 0u);
  puppet().CompleteAll();
  EXPECT_TRUE(wanted.ok());
}

// --- Several backends

TEST_F(BatcherTest, TheFirstWithAFreeLane) {
  Add({.name = "cuda:0"});
  Add({.name = "cuda:1"});
  Enqueue(1000);
  EXPECT_EQ(puppet(0).held(), 1u);
  Enqueue(1000);
  EXPECT_EQ(puppet(1).held(), 1u);
  puppet(1).Complete();
  puppet(0).Complete();
}

// --- Both kinds of backend

class BothKindsTest : public BatcherFixture {
 protected:
  // The estimate gives payloads above 16 KiB to the GPU.
  BothKindsTest() {
    limits_.inline_bytes_max = kMiB;
    Add({.name = "cuda:0"});
    Add({.name = "cpu", .kind = BackendKind::kCpu});
    gpu().set_estimate([](const Workload&) { return 20'000; });
    cpu().set_estimate([](const Workload& w) { return w.batch_bytes; });
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
};

TEST_F(BothKindsTest, EachSizeGoesToItsKind) {
  EXPECT_TRUE(Enqueue(NewJob(1000), Outcome::kCounted).ok());
  TestJob& large = Enqueue(100 * kKiB);
  EXPECT_EQ(gpu().held(), 1u);
  gpu().Complete();
  EXPECT_TRUE(large.ok());
  std::string placed;
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.reason, "estimate");
    EXPECT_EQ(p.switches, 0u);
    if (!p.typed) placed += p.backend + " ";
  }
  EXPECT_EQ(placed, "cpu cpu cpu cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 ");
}

TEST_F(BothKindsTest, WaitsForItsKindWhileTheOtherIsFree) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  EXPECT_EQ(cpu().held() + cpu().executed_inline(), 0u);
  gpu().Complete();
  EXPECT_EQ(gpu().held(), 1u);
  gpu().Complete();
  EXPECT_TRUE(waits.ok());
}

TEST_F(BothKindsTest, ButNotForALaneThatIsLongOverdue) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  const TimeNs wake_at = batcher().Pump();
  EXPECT_EQ(wake_at, clock_.Now() + 20'000'000);
  clock_.AdvanceUs(20'100);
  batcher().Pump();
  ASSERT_EQ(cpu().held(), 1u);
  cpu().Complete();
  EXPECT_TRUE(waits.ok());
  gpu().Complete();
}

TEST_F(BothKindsTest, WhatWaitsForTheGpuDoesNotKeepTheCpuFromCounting) {
  Enqueue(100 * kKiB);
  TestJob& waits = Enqueue(100 * kKiB);
  EXPECT_TRUE(Enqueue(NewJob(1000), Outcome::kCounted).ok());
  EXPECT_EQ(waits.done_count, 0);
  gpu().Complete();
  gpu().Complete();
}

TEST_F(BothKindsTest, OneKindIsDown) {
  batcher();
  gpu().Lose();
  TestJob& first = Enqueue(100 * kKiB);
  cpu().Complete();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(Enqueue(NewJob(100 * kKiB), Outcome::kCounted).ok());
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.backend, "cpu");
    EXPECT_EQ(p.reason, "only");
  }
}

TEST_F(BothKindsTest, WhatGetsMoreDoneIsChosen) {
  // The GPU answers twice as soon as the CPU counts.
  cpu().set_on_execute([&] { clock_.AdvanceUs(200); });
  const auto serve = [&](TimeNs us) {
    for (const TimeNs end = clock_.Now() + us * 1000; clock_.Now() < end;) {
      TestJob job(10'000);
      const auto outcome = batcher().Enqueue(&job, WhenFull::kRefuse);
      ASSERT_TRUE(outcome.ok());
      if (*outcome == Outcome::kCounted) continue;
      clock_.AdvanceUs(100);
      gpu().Complete();
      ASSERT_TRUE(job.ok());
    }
  };
  serve(1'000'000);
  const auto placements = batcher().snapshot().placements;
  EXPECT_EQ(placements[2].backend, "cuda:0");
  EXPECT_EQ(placements[2].reason, "trial");
  EXPECT_EQ(placements[2].switches, 1u);
  EXPECT_EQ(placements[1].backend, "cpu");
}

// --- Cutting

TEST_F(BatcherTest, ALargePayloadIsCutOverFreeLanesButOne) {
  Add({.lanes = 4});
  TestJob& job = Enqueue(6 * kMiB + 5);
  EXPECT_EQ(puppet().held(), 3u);
  EXPECT_EQ(batcher().snapshot().in_flight, 1u);
  TestJob& small = Enqueue(10);
  ASSERT_EQ(puppet().held(), 4u);
  puppet().Complete(3);
  EXPECT_TRUE(small.ok());
  puppet().Complete(1);
  puppet().Complete(1);
  EXPECT_EQ(job.done_count, 0);
  puppet().Complete();
  EXPECT_TRUE(job.ok()) << "the counts of the parts are summed";
}

TEST_F(BatcherTest, APayloadLargerThanALaneIsCutToThat) {
  limits_.batch_bytes_max = 64 * kKiB;
  Add({.lanes = 2, .lane_bytes = 40 * kKiB});
  TestJob& job = Enqueue(100 * kKiB);
  EXPECT_EQ(puppet().sizes(), Sizes{40 * kKiB});
  EXPECT_EQ(puppet().held(), 1u) << "the last lane stays free";
  EXPECT_EQ(batcher().snapshot().queue_bytes, 60 * kKiB);
  TestJob& small = Enqueue(10);
  EXPECT_EQ(puppet().sizes(1), Sizes{10});
  puppet().Complete(1);
  EXPECT_TRUE(small.ok());
  puppet().Complete();
  puppet().Complete();
  EXPECT_EQ(puppet().sizes(), Sizes{20 * kKiB});
  puppet().Complete();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherTest, ALoneLargePayloadTakesTheLastLane) {
  Add({.lanes = 2});
  Enqueue(10);
  TestJob& job = Enqueue(6 * kMiB);
  ASSERT_EQ(puppet().held(), 2u) << "no part of it is executing yet";
  puppet().CompleteAll();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherTest, TheRestIsDroppedWhenCancelledBetweenParts) {
  Add({.lane_bytes = 40 * kKiB});
  TestJob& job = Enqueue(100 * kKiB);
  job.cancelled = true;
  batcher().Pump();
  EXPECT_EQ(job.done_count, 0) << "a lane reads it";
  puppet().Complete();
  EXPECT_EQ(puppet().held(), 0u);
  EXPECT_EQ(job.code, absl::StatusCode::kCancelled);
  EXPECT_EQ(observer_.cancelled, 1);
}

// --- Fairness

TEST_F(BatcherTest, HugePayloadsOfOneCallerDoNotStarveSmallOnes) {
  limits_.batch_bytes_max = 1 * kMiB;
  limits_.split_bytes_min = 64 * kMiB;
  Add({});
  std::vector<TestJob*> huge;
  for (int i = 0; i < 5; ++i) huge.push_back(&Enqueue(4 * kMiB, 1));
  TestJob& small = Enqueue(100, 2);
  puppet().Complete();  // a part of the first, which was executing when the small one came
  EXPECT_EQ(puppet().sizes(), Sizes{100});
  puppet().CompleteAll();
  EXPECT_TRUE(small.ok());
  for (const TestJob* job : huge) EXPECT_TRUE(job->ok());
}

TEST_F(BatcherTest, ManyPayloadsOfOneCallerDoNotStarveAnother) {
  limits_.batch_payloads_max = 10;
  Add({});
  for (int i = 0; i < 1000; ++i) Enqueue(1000, 1);
  TestJob& other = Enqueue(1000, 2);
  puppet().Complete();
  puppet().Complete();
  EXPECT_TRUE(other.ok());
  puppet().CompleteAll();
}

// --- Draining

TEST_F(BatcherTest, DrainRefusesTheNewAndFinishesTheAccepted) {
  limits_.queue_bytes_max = 1000;
  limits_.batch_delay_us_max = 1'000'000;
  Add({});
  TestJob& queued = Enqueue(500);
  TestJob& waiting = Enqueue(NewJob(800), Outcome::kWaiting);
  EXPECT_EQ(puppet().held(), 0u);
  batcher().Drain();
  EXPECT_EQ(puppet().held(), 1u) << "nothing more will come: no delay";
  TestJob& late = NewJob(10);
  EXPECT_EQ(Refused(late, absl::StatusCode::kUnavailable, WhenFull::kRefuse).reason, "DRAINING");
  EXPECT_EQ(Refused(late, absl::StatusCode::kUnavailable, WhenFull::kWait).reason, "DRAINING");
  EXPECT_FALSE(batcher().WaitIdle(clock_.Now()));
  puppet().Complete();
  puppet().Complete();
  EXPECT_TRUE(queued.ok());
  EXPECT_TRUE(waiting.ok());
  EXPECT_TRUE(batcher().WaitIdle(clock_.Now()));
}

TEST_F(BatcherTest, WaitIdleIsWokenByTheLastDone) {
  Add({});
  TestJob& job = Enqueue(100);
  std::thread waiter([&] {
    EXPECT_TRUE(batcher().WaitIdle(kNever));
    EXPECT_EQ(job.done_count, 1);
  });
  puppet().Complete();
  waiter.join();
}

TEST_F(BatcherTest, TheDestructorWaitsForWhatWasAccepted) {
  Add({});
  TestJob& job = Enqueue(100);
  std::thread lane([&] { puppet().Complete(); });
  batcher_.reset();
  EXPECT_TRUE(job.ok());
  lane.join();
}

TEST_F(BatcherTest, TheThreadHonoursTheDelay) {
  limits_.batch_delay_us_max = 1000;
  Add({.kind = BackendKind::kCpu});
  Batcher with_thread({&puppet()}, limits_, Clock::Monotonic(), observer_);
  TestJob job(100);
  ASSERT_TRUE(with_thread.Enqueue(&job, WhenFull::kRefuse).ok());
  while (puppet().held() == 0) std::this_thread::yield();
  puppet().Complete();
  EXPECT_TRUE(with_thread.WaitIdle(kNever));
  EXPECT_TRUE(job.ok());
  EXPECT_GE(job.queue_ns, 1'000'000u);
}

// --- Typed samples

class TypedJobsTest : public BatcherFixture {
 protected:
  explicit TypedJobsTest(uint64_t gpu_counters = 0) {
    limits_.split_bytes_min = 256 * kKiB;
    Add({.name = "cuda:0", .lane_counters = gpu_counters});
    Add({.name = "cpu", .lanes = 4, .kind = BackendKind::kCpu});
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
  TestJob& NewTyped(uint64_t bytes, SampleType type = SampleType::kF64) {
    return NewTyped(bytes, *Plan::Make(*Binning::Even(20, -1e3, 1e3), type));
  }
  TestJob& NewTyped(uint64_t bytes, const Plan& plan) {
    TestJob& job = NewJob(bytes);
    job.plan = plan;
    return job;
  }
};

TEST_F(TypedJobsTest, GoToABackendThatCountsThem) {
  gpu().set_estimate([](const Workload&) { return 1; });
  cpu().set_estimate([](const Workload&) { return 1'000'000; });
  EXPECT_EQ(batcher().counters_max(), UINT64_MAX);
  EXPECT_TRUE(batcher().has_cpu());
  TestJob& typed = Enqueue(NewTyped(8 * kKiB));
  TestJob& bytes = Enqueue(8 * kKiB);
  EXPECT_EQ(cpu().held(), 1u);
  EXPECT_EQ(gpu().held(), 1u);
  cpu().Complete();
  gpu().Complete();
  EXPECT_TRUE(typed.ok());
  EXPECT_TRUE(bytes.ok());
}

TEST_F(TypedJobsTest, ShareABatchWithTheirLikeOnly) {
  gpu().Lose();
  for (int i = 0; i < 4; ++i) Enqueue(kKiB);  // the lanes are busy
  std::vector<TestJob*> jobs = {&Enqueue(NewTyped(kKiB)), &Enqueue(NewTyped(2 * kKiB)),
                                &Enqueue(kKiB), &Enqueue(NewTyped(3 * kKiB, SampleType::kU16)),
                                &Enqueue(NewTyped(4 * kKiB, SampleType::kU16))};
  for (int i = 0; i < 4; ++i) cpu().Complete();
  EXPECT_EQ(cpu().sizes(0), (std::vector<uint64_t>{kKiB, 2 * kKiB}));
  EXPECT_EQ(cpu().sizes(1), (std::vector<uint64_t>{kKiB}));
  EXPECT_EQ(cpu().sizes(2), (std::vector<uint64_t>{3 * kKiB, 4 * kKiB}));
  for (int i = 0; i < 3; ++i) cpu().Complete();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
}

TEST_F(TypedJobsTest, AreCutBetweenSamples) {
  limits_.batch_bytes_max = 100'003;  // of no whole number of samples
  TestJob& job = Enqueue(NewTyped(kMiB));
  while (cpu().held() > 0) {
    EXPECT_EQ(cpu().sizes()[0] % 8, 0u);
    cpu().Complete();
  }
  EXPECT_TRUE(job.ok());
}

TEST_F(TypedJobsTest, FailWhereNoBackendIsLeftThatCountsThem) {
  TestJob& retried = Enqueue(NewTyped(kKiB));
  cpu().Fail(absl::UnavailableError("lost"));
  EXPECT_EQ(retried.status.code(), absl::StatusCode::kInternal);
  cpu().Lose();
  TestJob& job = Enqueue(NewTyped(kKiB));
  EXPECT_EQ(job.status.code(), absl::StatusCode::kUnavailable);
  TestJob& bytes = Enqueue(kKiB);
  gpu().Complete();
  EXPECT_TRUE(bytes.ok());
}

// Takes one phase, and notes what it was given.
class OnePhase final : public Phases {
 public:
  std::shared_ptr<Phases> Anew() const override { return std::make_shared<OnePhase>(); }
  std::optional<Phase> Next(std::span<const Fragment> payload) override {
    if (++calls > 1) return std::nullopt;
    for (const Fragment& fragment : payload) bytes += fragment.size();
    return ExtentPhase{SampleType::kU8};
  }
  PhaseLimits needs() const override { return needed; }
  void Found(const std::optional<Extent>& extent) override { found = extent.has_value(); }
  std::optional<Plan> PlanOver(uint64_t, const std::optional<Extent>&,
                               std::span<const std::byte>) override {
    return std::nullopt;
  }
  void Counted(uint64_t, std::span<const uint64_t>, std::span<const std::byte>) override {}

  PhaseLimits needed;
  int calls = 0;
  uint64_t bytes = 0;
  bool found = false;
};

// A GPU that has counters for three payloads of 20 bins.
class TypedGpuTest : public TypedJobsTest {
 protected:
  TypedGpuTest() : TypedJobsTest(3 * kSlots + 1) {
    gpu().set_estimate([](const Workload& w) { return w.sample_bytes > 0 ? 1 : 1'000'000; });
    cpu().set_estimate([](const Workload& w) { return w.sample_bytes > 0 ? 1'000'000 : 1; });
  }
  static constexpr uint64_t kSlots = 23;
  const Plan plan_ = *Plan::Make(*Binning::Even(20, -1e3, 1e3), SampleType::kF64);
};

// Each thread that receives requests makes a plan of its own.
TEST_F(TypedGpuTest, ABatchHasTheSameBinsAndAsManyPayloadsAsCounters) {
  constexpr uint64_t kEach = 2 * kKiB;
  for (const bool listed : {false, true}) {
    std::vector<TestJob*> jobs = {&Enqueue(NewTyped(kEach, plan_))};
    for (const double last : {1e3, 1e3, 1e3, 1e3, 2e3}) {
      Binning binning = *Binning::Even(20, -1e3, last);
      if (listed) binning = *Binning::Edges(binning.ComputeEdges());
      jobs.push_back(&Enqueue(NewTyped(kEach, *Plan::Make(binning, SampleType::kF64))));
    }
    for (const size_t payloads : {1, 3, 1, 1}) {
      EXPECT_EQ(gpu().sizes(), std::vector<uint64_t>(payloads, kEach));
      gpu().Complete();
    }
    for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
  }
}

TEST_F(TypedGpuTest, MoreCountersThanALaneHasGoToTheCpu) {
  const Plan large = *Plan::Make(*Binning::Even(100, -1e3, 1e3), SampleType::kF64);
  TestJob& job = Enqueue(NewTyped(2 * kKiB, large));
  EXPECT_EQ(gpu().held(), 0u);
  cpu().CompleteAll();
  EXPECT_TRUE(job.ok());
}

// A GPU that executes phases whose rows have up to 256 bins.
class PhasesGpuTest : public BatcherFixture {
 protected:
  PhasesGpuTest() {
    Add({.name = "cuda:0", .lane_bytes = 4096, .phases = {.row_bins = 256, .pixel_bytes = 8}});
    Add({.name = "cpu", .kind = BackendKind::kCpu, .phases = kAllPhases});
  }
  PuppetBackend& gpu() { return puppet(0); }
  PuppetBackend& cpu() { return puppet(1); }
  TestJob& NewPhases(const PhaseLimits& needs) {
    TestJob& job = NewJob(8 * kKiB);  // more than the GPU's lane holds at once
    const auto phases = std::make_shared<OnePhase>();
    phases->needed = needs;
    job.phases = phases;
    job.plan = *Plan::Direct(*Binning::Even(20, -1e3, 1e3), SampleType::kF64);
    return job;
  }
};

TEST_F(PhasesGpuTest, PhasesGoToTheGpuWhereTheCpuIsLost) {
  EXPECT_EQ(batcher().phase_limits(), kAllPhases);
  TestJob& kept = Enqueue(NewPhases({}));
  EXPECT_EQ(gpu().held(), 0u);
  cpu().Complete();
  EXPECT_TRUE(kept.status.ok());
  cpu().Lose();
  TestJob& moved = Enqueue(NewPhases({.row_bins = 256, .pixel_bytes = 8}));
  EXPECT_EQ(gpu().sizes(), (std::vector<uint64_t>{8 * kKiB}));
  gpu().Complete();
  EXPECT_TRUE(moved.status.ok());
}

TEST_F(PhasesGpuTest, PhasesThatNeedMoreThanTheGpuHasFail) {
  batcher();
  cpu().Lose();
  for (const PhaseLimits& needs : {PhaseLimits{.row_bins = 257}, PhaseLimits{.pixel_bytes = 9}}) {
    EXPECT_EQ(Enqueue(NewPhases(needs)).status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(gpu().held(), 0u);
}

TEST_F(TypedGpuTest, PhasesGoToTheCpu) {
  TestJob& job = NewJob(2 * kKiB);
  job.phases = std::make_shared<OnePhase>();
  Enqueue(job);
  EXPECT_EQ(gpu().held(), 0u);
  cpu().CompleteAll();
  EXPECT_TRUE(job.status.ok());
}

TEST_F(TypedGpuTest, WhatAGpuLosesTheCpuCounts) {
  TestJob& job = Enqueue(NewTyped(2 * kKiB, plan_));
  gpu().Lose();
  gpu().Fail(absl::UnavailableError("lost"));
  cpu().CompleteAll();
  EXPECT_TRUE(job.ok());
  EXPECT_EQ(job.report.backend, "cpu");
}

// Payloads that shared a batch on the CPU are split on the GPU, where their plans differ.
TEST_F(TypedGpuTest, WhatTheCpuFailsTheGpuCountsPlanByPlan) {
  cpu().set_estimate([](const Workload&) { return 0; });
  limits_.inline_bytes_max = 0;
  std::vector<TestJob*> jobs;
  const Plan other = *Plan::Make(*Binning::Even(20, -1e3, 2e3), SampleType::kF64);
  for (int i = 0; i < 12; ++i) jobs.push_back(&Enqueue(NewTyped(kKiB, i % 2 ? plan_ : other)));
  for (int i = 0; i < 4; ++i) cpu().Complete();
  EXPECT_GT(cpu().sizes().size(), 1u);
  cpu().Lose();
  while (cpu().held() > 0) cpu().Fail(absl::UnavailableError("lost"));
  gpu().CompleteAll();
  for (const TestJob* job : jobs) EXPECT_TRUE(job->ok());
}

TEST_F(TypedGpuTest, BytesAndTypedSamplesAreTriedApart) {
  std::string typed, bytes;
  for (const auto& p : batcher().snapshot().placements) {
    EXPECT_EQ(p.reason, "estimate");
    (p.typed ? typed : bytes) += p.backend + " ";
  }
  EXPECT_EQ(bytes, "cpu cpu cpu cpu cpu cpu cpu cpu cpu ");
  EXPECT_EQ(typed, "cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 cuda:0 ");
}

TEST_F(TypedJobsTest, PhasesAreExecutedByALaneAloneAndUncut) {
  limits_.inline_bytes_max = kMiB;
  limits_.batch_bytes_max = 300'000;
  for (const uint64_t bytes : {kKiB, kMiB}) {
    TestJob& job = NewJob(bytes);
    const auto phases = std::make_shared<OnePhase>();
    job.phases = phases;
    EXPECT_EQ(Enqueue(job).done_count, 0);  // not on this thread
    EXPECT_EQ(cpu().sizes(), (std::vector<uint64_t>{bytes}));
    cpu().Complete();
    EXPECT_EQ(phases->calls, 2);
    EXPECT_EQ(phases->bytes, bytes);
    EXPECT_TRUE(phases->found);
    EXPECT_TRUE(job.status.ok());
  }
}

}  // namespace
}  // namespace histogram::server
