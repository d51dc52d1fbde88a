// What is made of a spec. tests/fuzz holds the codec and the encoder against protobuf's.
#include "server/request/codec.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/request/query.h"

namespace histogram::server {
namespace {

// A client can send half a billion empty specs in one message of 1 GiB.
TEST(SpecTest, EmptySpecsCostNoMoreThanEmptyPayloads) {
  const auto seconds_of = [](const std::string& field) {
    std::string bytes;
    for (int i = 0; i < (1 << 20); ++i) bytes += field;
    const Fragment message(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ParsedRequest parsed;
    const std::clock_t begin = std::clock();
    EXPECT_TRUE(ParseRequest(Method::kCompute, {&message, 1}, parsed).ok());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  double ratio = 1e9;
  for (int i = 0; i < 5; ++i) {
    ratio = std::min(ratio, seconds_of({"\x0a\x00", 2}) / seconds_of({"\x7a\x00", 2}));
  }
  EXPECT_LT(ratio, 3);
}

TEST(PlanTest, AbsentSpecMeansOneBinPerValue) {
  auto query = MakeQuery("", {});
  ASSERT_TRUE(query.ok());
  EXPECT_EQ((*query)->binning.bin_count(), 256U);
  EXPECT_FALSE((*query)->statistics);
}

v1::Spec SpecOf(const std::string& text) {
  v1::Spec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

struct BadSpec {
  const char* spec;
  const char* reason;
  const char* field;
  uint64_t limit = 0;
};

void ExpectRefused(const BadSpec& bad, const QueryLimits& limits) {
  const absl::Status status = MakeQuery(SpecOf(bad.spec).SerializeAsString(), limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.spec;
  EXPECT_EQ(GetErrorDetail(status).reason, bad.reason) << bad.spec;
  EXPECT_EQ(GetErrorDetail(status).field, bad.field) << bad.spec << ": " << status.message();
  EXPECT_EQ(GetErrorDetail(status).limit, bad.limit) << bad.spec;
}

TEST(PlanTest, BadSpecsNameTheirField) {
  for (const BadSpec& bad : std::initializer_list<BadSpec>{
           {"quantiles: [0, 1.5]", "BAD_QUANTILE", "spec.quantiles[1]", 1},
           {"quantiles: nan", "BAD_QUANTILE", "spec.quantiles[0]", 1},
           {"sample_type: SAMPLE_TYPE_FLOAT32", "BAD_BINNING", "spec.binning"},
           {"sample_type: SAMPLE_TYPE_FLOAT32 binning { even { bin_count: 5 } }", "BAD_BINNING",
            "spec.binning.even"},
           {"sample_type: SAMPLE_TYPE_UINT16 binning { alphabet { symbol_count: 5 } }",
            "BAD_BINNING", "spec.binning.alphabet"},
           {"binning { even {} }", "BAD_BINNING", "spec.binning.even.bin_count", 1}}) {
    ExpectRefused(bad, {});
  }
  EXPECT_EQ(
      MakeQuery(SpecOf("quantiles: 1.0000000000000002").SerializeAsString(), {}).status().message(),
      "spec.quantiles[0]: 1.0000000000000002 is not between 0 and 1");
}

TEST(PlanTest, EachTypeHasAPlan) {
  v1::Spec spec = SpecOf("binning { even { bin_count: 10 lower: -1 upper: 1 } }");
  for (int number = 0; number <= v1::SampleType_MAX; ++number) {
    spec.set_sample_type(static_cast<v1::SampleType>(number));
    const auto query = MakeQuery(spec.SerializeAsString(), {});
    ASSERT_TRUE(query.ok()) << number << query.status();
    EXPECT_EQ((*query)->plan->Now().type(), (*query)->sample_type) << number;
    EXPECT_EQ((*query)->plan->Now().counts_values(), number <= 1) << number;
    EXPECT_EQ(static_cast<int>((*query)->sample_type), std::max(number - 1, 0));
  }
}

// Backends that hold so many counters, and compute few even edges themselves: GPUs.
TEST(PlanTest, WhatOnlyGpusCount) {
  const QueryLimits limits = {
      .counters_max = 5003, .phases = {.row_bins = 1000, .pixel_bytes = 64}, .has_cpu = false};
  const std::string f32 = "sample_type: SAMPLE_TYPE_FLOAT32 ";
  const auto bins = [](int count) {
    return "binning { even { lower: -1 upper: 1 bin_count: " + std::to_string(count) + " } } ";
  };
  const std::string windows = "rows { windows { samples: 10 } }";
  const auto refused = [&](const std::string& spec, const char* reason, const char* field,
                           uint64_t limit) {
    ExpectRefused({spec.c_str(), reason, field, limit}, limits);
  };
  refused(f32 + bins(5001), "TOO_MANY_BINS", "spec.binning", 5000);
  refused(f32 + bins(1001) + windows, "TOO_MANY_BINS", "spec.binning", 1000);
  refused(f32 + bins(1000) + "rows { channels: 17 }", "BAD_ROWS", "spec.rows.channels", 16);
  const auto query = [&](const std::string& spec) {
    return *MakeQuery(SpecOf(spec).SerializeAsString(), limits);
  };
  EXPECT_TRUE(query(f32 + bins(5000))->plan->made()->has_tables());
  EXPECT_TRUE(query(f32 + "binning { edges { edges: 1 edges: 2 } }")->plan->made()->has_tables());
  EXPECT_FALSE(query(f32 + bins(4096))->plan->made()->has_tables());
  query(bins(5001) + windows);  // bytes, whose values are counted
  query(f32 + bins(1000) + "rows { channels: 16 }");
  const auto own = query(f32 + "binning { even { bin_count: 1000 range_of_data: true } }");
  EXPECT_EQ(own->plan->made(), nullptr);  // it is of no use
}

TEST(PlanTest, TheCacheTellsSpecsAndLimitsApart) {
  const std::string three = SpecOf("binning { even { bin_count: 3 } }").SerializeAsString();
  const std::string four = SpecOf("binning { even { bin_count: 4 } }").SerializeAsString();
  EXPECT_EQ((*MakeQueryCached(three, {}))->binning.bin_count(), 3U);
  EXPECT_EQ((*MakeQueryCached(four, {}))->binning.bin_count(), 4U);
  EXPECT_EQ(*MakeQueryCached(three, {}), *MakeQueryCached(three, {}));
  EXPECT_FALSE(MakeQueryCached(four, {.bin_count_max = 3}).ok());
  v1::Spec edges = SpecOf("sample_type: SAMPLE_TYPE_FLOAT64");
  auto& list = *edges.mutable_binning()->mutable_edges();
  for (uint32_t i = 0; i <= kPlanBinsAtOnceMax; ++i) list.add_edges(i);
  const std::string most = edges.SerializeAsString();
  EXPECT_EQ(*MakeQueryCached(most, {}), *MakeQueryCached(most, {}));
}

// All threads share a cache that is searched entry by entry: only plans are large enough to keep
// its entries few.
TEST(PlanTest, ThreadsShareLargePlansOnly) {
  const auto are_shared = [](v1::SampleType type) {
    v1::Spec spec = SpecOf("binning { even { lower: 0 upper: 200 } }");
    spec.set_sample_type(type);
    spec.mutable_binning()->mutable_even()->set_bin_count(kPlanBinsAtOnceMax + 1);
    const std::string bytes = spec.SerializeAsString();
    const auto mine = *MakeQueryCached(bytes, {});
    EXPECT_EQ(*MakeQueryCached(bytes, {}), mine);
    std::shared_ptr<const Query> others;
    std::thread([&] { others = *MakeQueryCached(bytes, {}); }).join();
    return others == mine;
  };
  EXPECT_TRUE(are_shared(v1::SAMPLE_TYPE_FLOAT32));
  EXPECT_FALSE(are_shared(v1::SAMPLE_TYPE_UINT8)) << "their values are counted, without a plan";
}

}  // namespace
}  // namespace histogram::server
