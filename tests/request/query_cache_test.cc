#include "server/request/query_cache.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "histogram/v1/histogram.pb.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

constexpr QueryLimits kLimits = {.bin_count_max = kBinCountMax};

std::string SpecOf(uint32_t bins, v1::SampleType type = v1::SAMPLE_TYPE_FLOAT32) {
  v1::Spec spec;
  spec.set_sample_type(type);
  auto* even = spec.mutable_binning()->mutable_even();
  even->set_bin_count(bins);
  even->set_lower(-4);
  even->set_upper(4);
  return spec.SerializeAsString();
}

std::shared_ptr<const Query> QueryOf(const std::string& spec) {
  auto query = MakeQuery(spec, kLimits);
  EXPECT_TRUE(query.ok()) << query.status();
  return *query;
}

TEST(LatePlanTest, LargePlansAreMadeLater) {
  EXPECT_NE(QueryOf(SpecOf(kPlanBinsAtOnceMax))->plan->made(), nullptr);
  const auto query = QueryOf(SpecOf(kPlanBinsAtOnceMax + 1));
  EXPECT_EQ(query->plan->made(), nullptr);
  const Plan& plan = query->plan->Get();
  EXPECT_EQ(query->plan->made(), &plan);
  EXPECT_EQ(plan.bin_count(), kPlanBinsAtOnceMax + 1);
}

TEST(QueryCacheTest, FindsWhatItKeeps) {
  QueryCache cache(uint64_t{1} << 20);
  const std::string spec = SpecOf(10000);
  EXPECT_EQ(cache.Find(spec, kLimits), nullptr);
  const auto query = QueryOf(spec);
  EXPECT_EQ(cache.Add(spec, kLimits, query), query);
  EXPECT_EQ(cache.Find(spec, kLimits), query);
  EXPECT_EQ(cache.Add(spec, kLimits, QueryOf(spec)), query) << "the first one is the one to use";
  EXPECT_EQ(cache.Find(spec, {.bin_count_max = 65536}), nullptr) << "other limits";
  EXPECT_EQ(cache.Find(SpecOf(10001), kLimits), nullptr);
}

TEST(QueryCacheTest, TheOneUsedLeastRecentlyGoes) {
  const auto bytes_of = [](const std::string& spec) {
    QueryCache alone(UINT64_MAX);
    alone.Add(spec, kLimits, QueryOf(spec));
    return alone.bytes();
  };
  const std::string a = SpecOf(10000), b = SpecOf(10001), c = SpecOf(10002);
  QueryCache cache(2 * bytes_of(c));
  cache.Add(a, kLimits, QueryOf(a));
  cache.Add(b, kLimits, QueryOf(b));
  EXPECT_NE(cache.Find(a, kLimits), nullptr);
  cache.Add(c, kLimits, QueryOf(c));
  EXPECT_NE(cache.Find(a, kLimits), nullptr);
  EXPECT_EQ(cache.Find(b, kLimits), nullptr);
  EXPECT_NE(cache.Find(c, kLimits), nullptr);
}

TEST(QueryCacheTest, IsBoundedByWhatPlansTake) {
  constexpr uint64_t kBytesMax = uint64_t{8} << 20;
  QueryCache cache(kBytesMax);
  for (uint32_t i = 0; i < 200; ++i) {
    const std::string spec =
        SpecOf(5000 + 997 * i, i % 2 == 0 ? v1::SAMPLE_TYPE_FLOAT64 : v1::SAMPLE_TYPE_BFLOAT16);
    cache.Add(spec, kLimits, QueryOf(spec));
    ASSERT_LE(cache.bytes(), kBytesMax);
    ASSERT_NE(cache.Find(spec, kLimits), nullptr);
  }
  EXPECT_GT(cache.bytes(), kBytesMax / 2);
}

TEST(QueryCacheTest, WhatIsLargerThanAllOfItIsNotKept) {
  QueryCache cache(uint64_t{1} << 20);
  const std::string spec = SpecOf(1 << 20);
  EXPECT_NE(cache.Add(spec, kLimits, QueryOf(spec)), nullptr);
  EXPECT_EQ(cache.Find(spec, kLimits), nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
}

}  // namespace
}  // namespace histogram::server
