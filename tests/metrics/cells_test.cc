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

}  // namespace
}  // namespace histogram::server
