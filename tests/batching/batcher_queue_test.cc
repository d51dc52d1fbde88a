// The batcher's queue: refusing, waiting, cutting, fairness, draining.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/batching/batcher_fixture.h"

namespace histogram::server {
namespace {

using Sizes = std::vector<uint64_t>;

class BatcherQueueTest : public BatcherFixture {};

// --- Refusing and waiting

TEST_F(BatcherQueueTest, AFullQueueRefuses) {
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

TEST_F(BatcherQueueTest, TheRetryHintGrowsWithWhatIsQueuedUpToASecond) {
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

TEST_F(BatcherQueueTest, APayloadThatNeverFitsIsRefusedAlsoWhenItWouldWait) {
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

TEST_F(BatcherQueueTest, StreamsOfOneCallerWaitFirstComeFirstServed) {
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

TEST_F(BatcherQueueTest, ACallerThatKeepsTheQueueFullKeepsNobodyElseOut) {
  limits_.queue_bytes_max = 3000;
  Add({});
  for (int i = 0; i < 2; ++i) Enqueue(900, 1);
  for (int i = 0; i < 8; ++i) Enqueue(NewJob(900, 1), Outcome::kWaiting);
  TestJob& other = Enqueue(500, 2);
  while (puppet().held() > 0) puppet().Complete();
  EXPECT_TRUE(other.ok());
}

TEST_F(BatcherQueueTest, AJobThatFitsDoesNotWait) {
  Add({});
  TestJob& job = NewJob(10);
  EXPECT_EQ(*batcher().Enqueue(&job, WhenFull::kWait), Outcome::kQueued);
  puppet().Complete();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherQueueTest, AWaitingJobThatNobodyWantsIsDropped) {
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

// --- Cutting

TEST_F(BatcherQueueTest, ALargePayloadIsCutOverFreeLanesButOne) {
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

TEST_F(BatcherQueueTest, APayloadLargerThanALaneIsCutToThat) {
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

TEST_F(BatcherQueueTest, ALoneLargePayloadTakesTheLastLane) {
  Add({.lanes = 2});
  Enqueue(10);
  TestJob& job = Enqueue(6 * kMiB);
  ASSERT_EQ(puppet().held(), 2u) << "no part of it is executing yet";
  puppet().CompleteAll();
  EXPECT_TRUE(job.ok());
}

TEST_F(BatcherQueueTest, TheRestIsDroppedWhenCancelledBetweenParts) {
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

TEST_F(BatcherQueueTest, HugePayloadsOfOneCallerDoNotStarveSmallOnes) {
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

TEST_F(BatcherQueueTest, ManyPayloadsOfOneCallerDoNotStarveAnother) {
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

TEST_F(BatcherQueueTest, DrainRefusesTheNewAndFinishesTheAccepted) {
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

TEST_F(BatcherQueueTest, WaitIdleIsWokenByTheLastDone) {
  Add({});
  TestJob& job = Enqueue(100);
  std::thread waiter([&] {
    EXPECT_TRUE(batcher().WaitIdle(kNever));
    EXPECT_EQ(job.done_count, 1);
  });
  puppet().Complete();
  waiter.join();
}

TEST_F(BatcherQueueTest, TheDestructorWaitsForWhatWasAccepted) {
  Add({});
  TestJob& job = Enqueue(100);
  std::thread lane([&] { puppet().Complete(); });
  batcher_.reset();
  EXPECT_TRUE(job.ok());
  lane.join();
}

TEST_F(BatcherQueueTest, TheThreadHonoursTheDelay) {
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

}  // namespace
}  // namespace histogram::server
