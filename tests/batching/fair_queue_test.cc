#include "server/batching/fair_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"

namespace histogram::server {
namespace {

constexpr auto kSmall = FairQueue::kSmall;
constexpr auto kLarge = FairQueue::kLarge;
constexpr uint64_t kKiB = 1 << 10;

class QueuedJob final : public Job {
 public:
  QueuedJob(uint64_t caller_id, uint64_t payload_bytes) {
    caller = caller_id;
    bytes = payload_bytes;
  }
  void Done(const absl::Status&) override {}
};

class FairQueueTest : public testing::Test {
 protected:
  Job* Push(uint64_t caller, uint64_t bytes) {
    Job* job = &jobs_.emplace_back(caller, bytes);
    queue_.Push(job);
    return job;
  }
  // Takes the payload whose turn it is, whole.
  Job* Pop() {
    const FairQueue::SizeClass c = queue_.Next();
    Job* job = queue_.Front(c);
    EXPECT_TRUE(queue_.Take(c, FairQueue::Left(*job)));
    return job;
  }

  std::deque<QueuedJob> jobs_;
  FairQueue queue_{64 * kKiB};
};

TEST_F(FairQueueTest, OneCallerIsFirstComeFirstServed) {
  std::vector<Job*> in, out;
  for (int i = 0; i < 100; ++i) in.push_back(Push(1, static_cast<uint64_t>(i) * 100));
  while (!queue_.empty()) out.push_back(Pop());
  EXPECT_EQ(in, out);
}

// Many small payloads and a few huge ones: each class gets half of the bytes.
TEST_F(FairQueueTest, ClassesShareBytes) {
  for (int i = 0; i < 10; ++i) Push(1, 1024 * kKiB);
  for (int i = 0; i < 2000; ++i) Push(2, 4 * kKiB);
  std::map<uint64_t, uint64_t> bytes;  // by caller
  while (queue_.payloads(kSmall) > 0 && queue_.payloads(kLarge) > 0) {
    const Job* job = Pop();
    bytes[job->caller] += job->bytes;
    const auto one = static_cast<int64_t>(bytes[1]);
    const auto two = static_cast<int64_t>(bytes[2]);
    // A small payload also pays for being one, so the large ones may be ahead by a half.
    ASSERT_LE(one - two * 3 / 2, 1100 * static_cast<int64_t>(kKiB));
    ASSERT_LE(two - one, 1100 * static_cast<int64_t>(kKiB));
  }
  EXPECT_GT(bytes[1], 5000 * kKiB);
}

TEST_F(FairQueueTest, CallersShareBytesWhateverTheirSizes) {
  for (int i = 0; i < 4000; ++i) Push(1, 1 * kKiB);
  for (int i = 0; i < 400; ++i) Push(2, 60 * kKiB);
  for (int i = 0; i < 4000; ++i) Push(3, 0);
  std::map<uint64_t, int64_t> cost;
  for (int i = 0; i < 2000; ++i) {
    const Job* job = Pop();
    cost[job->caller] += static_cast<int64_t>(job->bytes) + FairQueue::kPayloadCost;
  }
  const auto slack = static_cast<int64_t>(72 * kKiB);  // a payload and a quantum
  EXPECT_NEAR(cost[1], cost[2], slack);
  EXPECT_NEAR(cost[1], cost[3], slack);
  EXPECT_GT(cost[1], 10 * slack);
}

TEST_F(FairQueueTest, WhatIsLeftOfAPayloadStaysFirstOfItsCaller) {
  Job* huge = Push(1, 16384 * kKiB);
  Push(1, 100 * kKiB);
  Job* other = Push(2, 100 * kKiB);
  ASSERT_EQ(queue_.Front(kLarge), huge);
  ASSERT_FALSE(queue_.Take(kLarge, 8192 * kKiB));
  EXPECT_EQ(FairQueue::Left(*huge), 8192 * kKiB);
  // Its caller has had more than its turn.
  EXPECT_EQ(queue_.Front(kLarge), other);
  ASSERT_TRUE(queue_.Take(kLarge, FairQueue::Left(*other)));
  EXPECT_EQ(queue_.Front(kLarge), huge);
  // A look does not change whose turn it is.
  EXPECT_EQ(queue_.Front(kLarge), huge);
  ASSERT_TRUE(queue_.Take(kLarge, 8192 * kKiB));
}

TEST_F(FairQueueTest, ACallerDoesNotSaveUpTurns) {
  for (int i = 0; i < 500; ++i) Push(1, 1 * kKiB);
  for (int i = 0; i < 400; ++i) Pop();  // alone
  for (int i = 0; i < 100; ++i) Push(2, 1 * kKiB);
  std::map<uint64_t, int> served;
  for (int i = 0; i < 100; ++i) ++served[Pop()->caller];
  EXPECT_NEAR(served[1], served[2], 10);
}

TEST_F(FairQueueTest, DroppedPayloadsCostTheirCallerNothing) {
  for (int i = 0; i < 100; ++i) Push(1, 60 * kKiB);
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(queue_.Front(kSmall), nullptr);
    queue_.Drop(kSmall);
  }
  EXPECT_TRUE(queue_.empty());
  const Job* first = Push(1, 10);
  Push(2, 10);
  EXPECT_EQ(Pop(), first);
}

// Ten thousand callers that come and go: all are served, each about as often.
TEST_F(FairQueueTest, ManyCallers) {
  constexpr uint64_t kCallers = 10000;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t caller = 0; caller < kCallers; ++caller) Push(caller, 100 + caller % 50000);
  }
  std::map<uint64_t, int> served;
  for (uint64_t i = 0; i < kCallers; ++i) ++served[Pop()->caller];
  for (const auto& [caller, count] : served) EXPECT_LE(count, 3) << caller;
  EXPECT_GT(served.size(), kCallers / 3);
  uint64_t left = 0;
  for (; !queue_.empty(); ++left) Pop();
  EXPECT_EQ(left, 2 * kCallers);
}

}  // namespace
}  // namespace histogram::server
