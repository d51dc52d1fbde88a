#include "server/batching/inline_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace histogram::server {
namespace {

constexpr TimeNs kOneMs = 1'000'000;

TEST(InlineGateTest, CollectsEachPayloadOnce) {
  InlineGate gate(/*collects=*/true);
  gate.Open(InlineGate::kAll);
  gate.Collect(10 * kOneMs);
  for (const uint64_t bytes : {100, 23}) {
    ASSERT_TRUE(gate.Enter(2));
    gate.Leave(2, bytes);
  }
  ASSERT_TRUE(gate.Enter(5));
  gate.LeaveUncounted();
  const InlineGate::Collected collected = gate.Collect(12 * kOneMs);
  EXPECT_EQ(collected.since, 10 * kOneMs);
  for (size_t c = 0; c < collected.counted.size(); ++c) {
    EXPECT_EQ(collected.counted[c].bytes, c == 2 ? 123U : 0U);
    EXPECT_EQ(collected.counted[c].payloads, c == 2 ? 2U : 0U);
  }
  EXPECT_EQ(gate.Collect(14 * kOneMs).counted[2].payloads, 0U);
}

TEST(InlineGateTest, OneThreadCollectsEveryTwoMilliseconds) {
  InlineGate gate(/*collects=*/true);
  EXPECT_TRUE(gate.CollectIsDue(5 * kOneMs));
  EXPECT_FALSE(gate.CollectIsDue(5 * kOneMs));
  EXPECT_FALSE(gate.CollectIsDue(7 * kOneMs - 1));
  EXPECT_TRUE(gate.CollectIsDue(7 * kOneMs));
  InlineGate never(/*collects=*/false);
  EXPECT_FALSE(never.CollectIsDue(1'000'000 * kOneMs));
}

// Who closes the gate and finds nobody inside may rely on it.
TEST(InlineGateTest, NobodyIsInsideOnceItWasClosedAndEmpty) {
  InlineGate gate(/*collects=*/false);
  gate.Open(InlineGate::kAll);
  std::atomic<bool> shut{false};
  std::atomic<uint64_t> late{0}, entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (gate.Enter(1)) {
        late += shut.load() ? 1 : 0;
        ++entered;
        gate.Leave(1, 1);
      }
    });
  }
  while (entered.load() < 1000) std::this_thread::yield();
  gate.Open(0);
  while (gate.inside() > 0) std::this_thread::yield();
  shut = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late.load(), 0U);
  EXPECT_EQ(gate.Collect(1).counted[1].payloads, entered.load());
}

}  // namespace
}  // namespace histogram::server
