// The batcher on its straight way: batching, counting where payloads arrive, delaying.
#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
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

}  // namespace
}  // namespace histogram::server
