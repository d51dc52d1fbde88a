#include "server/batching/slowdown.h"

#include <gtest/gtest.h>

namespace histogram::server {
namespace {

constexpr uint64_t kNsPerUs = 1000;

TEST(SlowdownTest, BatchesThatTakeAsPredictedChangeNothing) {
  Slowdown slowdown;
  EXPECT_EQ(slowdown.Factor(0), 1);
  for (int i = 0; i < 100; ++i) slowdown.Observe(i, 100 * kNsPerUs, 100 * kNsPerUs);
  EXPECT_EQ(slowdown.Factor(100), 1);
}

TEST(SlowdownTest, FollowsWhatBatchesTake) {
  Slowdown slowdown;
  slowdown.Observe(0, 1000 * kNsPerUs, 3000 * kNsPerUs);
  EXPECT_GT(slowdown.Factor(0), 1.2);
  EXPECT_LT(slowdown.Factor(0), 1.3) << "one batch says little";
  for (int i = 0; i < 40; ++i) slowdown.Observe(0, 1000 * kNsPerUs, 3000 * kNsPerUs);
  EXPECT_NEAR(slowdown.Factor(0), 3, 0.05);
  for (int i = 0; i < 40; ++i) slowdown.Observe(0, 1000 * kNsPerUs, 800 * kNsPerUs);
  EXPECT_NEAR(slowdown.Factor(0), 0.8, 0.05) << "predictions may be too high, too";
}

TEST(SlowdownTest, SmallBatchesSayLittle) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.Observe(0, 100, 1000);
  EXPECT_LT(slowdown.Factor(0), 1.05) << "ten times as long, but of nothing";
}

TEST(SlowdownTest, StaysWithinItsBounds) {
  Slowdown slowdown;
  for (int i = 0; i < 200; ++i) slowdown.Observe(0, 1, UINT64_MAX);
  EXPECT_LE(slowdown.Factor(0), Slowdown::kFactorMax);
  for (int i = 0; i < 200; ++i) slowdown.Observe(0, UINT64_MAX, 1);
  EXPECT_GE(slowdown.Factor(0), Slowdown::kFactorMin);
}

TEST(SlowdownTest, IsForgotten) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.Observe(0, 100 * kNsPerUs, 500 * kNsPerUs);
  const double excess = slowdown.Factor(0) - 1;
  EXPECT_NEAR(slowdown.Factor(Slowdown::kHalfLifeNs) - 1, excess / 2, 1e-9);
  EXPECT_NEAR(slowdown.Factor(20 * Slowdown::kHalfLifeNs), 1, 1e-4);
  EXPECT_EQ(slowdown.Factor(-1) - 1, excess) << "a clock that went back";
}

}  // namespace
}  // namespace histogram::server
