#include "server/request/query_cache.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "histogram/v1/histogram.pb.h"
#include "server/base/thresholds.h"
#include "server/request/admit.h"

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

TEST(PlanInUseTest, TablesAreMadeLater) {
  EXPECT_EQ(QueryOf(SpecOf(1))->plan->made(), nullptr);
  const auto query = QueryOf(SpecOf(kPlanBinsAtOnceMax + 1));
  EXPECT_EQ(query->plan->made(), nullptr);
  EXPECT_FALSE(query->plan->Now().has_tables());
  const Plan& plan = query->plan->Get();
  EXPECT_EQ(&query->plan->Now().data(), &plan.data());
  EXPECT_EQ(query->plan->made(), &plan);
  EXPECT_EQ(plan.bin_count(), kPlanBinsAtOnceMax + 1);
}

TEST(PlanInUseTest, TablesArePaidForByTheSamplesCounted) {
  const auto plan = QueryOf(SpecOf(2048))->plan;
  uint64_t payloads = 1;
  for (; !plan->Pays(1024); ++payloads) ASSERT_LT(payloads, 1000U);
  EXPECT_GT(payloads, 2U) << "what comes once or twice takes no tables";
  EXPECT_FALSE(plan->IsQuick(1024, kPlanBinsAtOnceMax));
  EXPECT_TRUE(plan->IsQuick(1 << 20, kPlanBinsAtOnceMax));
  EXPECT_FALSE(QueryOf(SpecOf(kPlanBinsAtOnceMax + 1))->plan->IsQuick(1 << 30, kPlanBinsAtOnceMax));
}

// A job for a payload of so many f32.
struct FilledJob final : Job {
  FilledJob(const std::shared_ptr<const Query>& query, uint64_t samples) {
    ParsedRequest parsed;
    parsed.payload_bytes = samples * sizeof(float);
    FillJob(parsed, nullptr, query, kNever, *this);
  }
  FilledJob(const std::shared_ptr<const Query>& query, const ParsedRequest& parsed) {
    FillJob(parsed, nullptr, query, kNever, *this);
  }
  void Done(const absl::Status& /*status*/) override {}
};

// The charge of 6,000 f32 in rows of two channels.
uint64_t ChargeOfRows(bool quantiles, bool own_ranges) {
  v1::ComputeRequest request;
  request.mutable_spec()->ParseFromString(SpecOf(10));
  request.mutable_spec()->mutable_rows()->set_channels(2);
  request.mutable_spec()->set_statistics(true);
  request.mutable_spec()->add_statistics_only(v1::STATISTIC_ENTROPY);
  if (quantiles) request.mutable_spec()->add_quantiles(0.5);
  auto* even = request.mutable_spec()->mutable_binning()->mutable_even();
  if (own_ranges) {
    even->clear_lower();
    even->clear_upper();
    even->set_range_of_row(true);
  }
  request.set_payload(std::string(6000 * sizeof(float), '\0'));
  const std::string bytes = request.SerializeAsString();
  const Fragment message(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  ParsedRequest parsed;
  std::shared_ptr<const Query> query;
  const absl::Status status = Admit(
      Method::kCompute, {&message, 1}, {.payload_bytes_max = bytes.size(), .query = kLimits},
      [](uint64_t) { return absl::OkStatus(); }, parsed, query);
  EXPECT_TRUE(status.ok()) << status;
  return FilledJob(query, parsed).charge_bytes;
}

TEST(FillJobTest, RowsAreChargedForWhatTheirPhasesKeep) {
  const uint64_t row = 3000 * sizeof(float), plain = ChargeOfRows(false, false);
  EXPECT_GE(plain, 5 * row) << "the payload, it in one piece, and a channel";
  EXPECT_GE(ChargeOfRows(true, false), plain + 2 * row);
  EXPECT_GE(ChargeOfRows(false, true), plain + 4 * sizeof(double)) << "the ranges";
}

// Each takes a GPU's lane some 35 us, and a batch of more than ten seconds is taken for hung.
TEST(AdmitTest, RowsOverTheirOwnRangesAreFewerWhereOnlyGpusCount) {
  v1::Spec spec;
  spec.ParseFromString(SpecOf(10));
  auto* even = spec.mutable_binning()->mutable_even();
  even->clear_lower();
  even->clear_upper();
  even->set_range_of_row(true);
  spec.mutable_rows()->mutable_windows()->set_samples(1);
  const std::string bytes = spec.SerializeAsString();
  const auto admits = [&](uint64_t rows, bool has_cpu) {
    ParsedRequest parsed;
    parsed.spec = bytes;
    parsed.payload_bytes = rows * sizeof(float);
    QueryLimits limits = kLimits;
    limits.has_cpu = has_cpu;
    std::shared_ptr<const Query> query;
    return AdmitParsed(
               Method::kCompute, {.payload_bytes_max = parsed.payload_bytes, .query = limits},
               [](uint64_t) { return absl::OkStatus(); }, parsed, query)
        .ok();
  };
  EXPECT_TRUE(admits(16'000, false));
  EXPECT_FALSE(admits(17'000, false));
  EXPECT_TRUE(admits(500'000, true));
}

TEST(FillJobTest, TablesAreMadeWhereTheyTakeNoLongerThanTheCount) {
  const auto query_of = [](uint32_t bins) {
    auto query = std::make_shared<Query>();
    query->Set(*Binning::Even(bins, 0.0, 1000.0), SampleType::kF32);
    return query;
  };
  // Few samples: without, until they add up. Then a lane makes them.
  auto query = query_of(2048);
  EXPECT_FALSE(FilledJob(query, 1024).plan.has_tables());
  EXPECT_EQ(query->plan->made(), nullptr);
  const uint64_t charge = FilledJob(query, 1024).charge_bytes;
  for (int i = 0; i < 1000 && FilledJob(query, 1024).phases == nullptr; ++i) continue;
  const FilledJob late(query, 1024);
  ASSERT_NE(late.phases, nullptr);
  EXPECT_EQ(late.charge_bytes, charge + query->plan->bytes());
  EXPECT_EQ(query->plan->made(), nullptr);
  RunPhases(*late.phases, {});
  EXPECT_TRUE(FilledJob(query, 1024).plan.has_tables());
  // Many samples: at once.
  query = query_of(2048);
  EXPECT_TRUE(FilledJob(query, 1 << 20).plan.has_tables());
  // And many bins: a lane.
  EXPECT_NE(FilledJob(query_of(65536), 1 << 24).phases, nullptr);
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
