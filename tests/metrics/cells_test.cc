// Sharded counters add up exactly, and values land in the buckets that Prometheus means.
#include "server/base/cells.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace histogram::server {
namespace {

int SlowIndex(const BucketLayout& layout, uint64_t value) {
  for (int i = 0; i < layout.bound_count; ++i) {
    if (value <= layout.Bound(i)) return i;
  }
  return layout.bound_count;
}

TEST(BucketLayout, AgreesWithComparingEveryBound) {
  std::mt19937_64 random(1);
  for (const BucketLayout layout :
       {BucketLayout{1, 1, 13}, BucketLayout{256, 2, 12}, BucketLayout{1000, 1, 21},
        BucketLayout{50000, 1, 19}, BucketLayout{3, 3, 5}, BucketLayout{1, 1, 1}}) {
    std::vector<uint64_t> values = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1};
    for (int i = 0; i < layout.bound_count; ++i) {
      for (const int64_t d : {-1, 0, 1})
        values.push_back(layout.Bound(i) + static_cast<uint64_t>(d));
    }
    for (int i = 0; i < 10000; ++i) values.push_back(random() >> (random() % 64));
    for (const uint64_t value : values) {
      ASSERT_EQ(layout.IndexOf(value), SlowIndex(layout, value))
          << value << " with first bound " << layout.first;
    }
  }
}

TEST(Cells, RoundsTheShardsUpToAPowerOfTwoWithinBounds) {
  EXPECT_EQ(Cells(1, 1).shard_count(), 1u);
  EXPECT_EQ(Cells(1, 3).shard_count(), 4u);
  EXPECT_EQ(Cells(1, 100000).shard_count(), Cells::kShardsMax);
  EXPECT_GE(Cells(1).shard_count(), 1u);
}

TEST(Cells, LosesNothingOverThreads) {
  constexpr uint64_t kThreads = 8, kAdds = 20000;
  Cells cells(3, 4);  // fewer shards than threads: some share one
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&cells, t] {
        for (uint64_t i = 0; i < kAdds; ++i) {
          cells.Add(0, 1);
          cells.Add(2, t);
        }
      });
    }
  }
  EXPECT_EQ(cells.Sum(0), kThreads * kAdds);
  EXPECT_EQ(cells.Sum(1), 0u);
  EXPECT_EQ(cells.Sum(2), kAdds * (kThreads * (kThreads - 1) / 2));
}

TEST(HistogramCells, CountsInOneBucketAndAddsToTheSum) {
  CellPlan plan;
  plan.Take(5);
  const HistogramCells histogram({10, 1, 3}, plan);  // 10, 20, 40, more
  EXPECT_EQ(plan.count(), 10u);
  Cells cells(plan.count(), 1);
  for (const uint64_t value : {0, 10, 11, 40, 41, 1000}) histogram.Observe(cells.Local(), value);
  EXPECT_EQ(cells.Sum(5), 2u);
  EXPECT_EQ(cells.Sum(6), 1u);
  EXPECT_EQ(cells.Sum(7), 1u);
  EXPECT_EQ(cells.Sum(8), 2u);
  EXPECT_EQ(cells.Sum(histogram.sum_cell()), 1102u);
}

}  // namespace
}  // namespace histogram::server
