// The request codec and the reply encoder against the generated protobuf code.
#include "server/request/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/request/encode.h"
#include "server/request/query.h"

namespace histogram::server {
namespace {

// `bytes` cut into slices of `size` bytes each.
std::vector<Fragment> Cut(const std::string& bytes, size_t size) {
  std::vector<Fragment> slices;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t i = 0; i < bytes.size(); i += size) {
    slices.emplace_back(data + i, std::min(size, bytes.size() - i));
  }
  return slices;
}

std::string Join(const ParsedRequest::Fragments& fragments) {
  std::string joined;
  for (const Fragment& f : fragments) {
    joined.append(reinterpret_cast<const char*>(f.data()), f.size());
  }
  return joined;
}

v1::ComputeRequest Example(const std::string& payload) {
  v1::ComputeRequest request;
  auto* even = request.mutable_spec()->mutable_binning()->mutable_even();
  even->set_bin_count(10);
  even->set_lower(0);
  even->set_upper(100);
  request.mutable_spec()->add_quantiles(0.5);
  request.set_payload(payload);
  return request;
}

// Each test runs over every way of cutting a message into equal slices, so that tags, lengths and
// fields lie across slices.
class CodecTest : public ::testing::TestWithParam<size_t> {};

TEST_P(CodecTest, ReadsSpecAndPayload) {
  const v1::ComputeRequest request = Example("some bytes to count");
  const std::string bytes = request.SerializeAsString();
  ParsedRequest parsed;
  ASSERT_TRUE(ParseComputeRequest(Cut(bytes, GetParam()), parsed).ok());
  EXPECT_EQ(parsed.spec, request.spec().SerializeAsString());
  EXPECT_EQ(Join(parsed.payload), request.payload());
  EXPECT_EQ(parsed.payload_bytes, request.payload().size());
}

TEST_P(CodecTest, PayloadFirstAndRepeatedFieldsFollowProtobuf) {
  v1::ComputeRequest first = Example("overwritten");
  v1::ComputeRequest second;
  second.mutable_spec()->mutable_binning()->mutable_even()->set_bin_count(7);
  second.mutable_spec()->add_quantiles(0.25);
  second.set_payload("the last one wins");
  v1::ComputeRequest payload_only;
  payload_only.set_payload("first on the wire");
  const std::string bytes =
      payload_only.SerializeAsString() + first.SerializeAsString() + second.SerializeAsString();
  v1::ComputeRequest expected;
  ASSERT_TRUE(expected.ParseFromString(bytes));
  ParsedRequest parsed;
  ASSERT_TRUE(ParseComputeRequest(Cut(bytes, GetParam()), parsed).ok());
  v1::Spec spec;
  ASSERT_TRUE(spec.ParseFromString(std::string(parsed.spec)));
  EXPECT_EQ(spec.SerializeAsString(), expected.spec().SerializeAsString());
  EXPECT_EQ(spec.binning().even().bin_count(), 7U);
  EXPECT_EQ(Join(parsed.payload), expected.payload());
}

// A client can send half a billion empty specs in one message of 1 GiB.
TEST(SpecTest, EmptySpecsCostNoMoreThanEmptyPayloads) {
  const auto seconds_of = [](const std::string& field) {
    std::string bytes;
    for (int i = 0; i < (1 << 20); ++i) bytes += field;
    const auto fragments = Cut(bytes, bytes.size());
    ParsedRequest parsed;
    const std::clock_t begin = std::clock();
    EXPECT_TRUE(ParseComputeRequest(fragments, parsed).ok());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  double ratio = 1e9;
  for (int i = 0; i < 5; ++i) {
    ratio = std::min(ratio, seconds_of({"\x0a\x00", 2}) / seconds_of({"\x7a\x00", 2}));
  }
  EXPECT_LT(ratio, 3);
}

TEST_P(CodecTest, ComputeManyKeepsTheIdOfABadRequest) {
  v1::ComputeManyRequest request;
  *request.mutable_request() = Example("x");
  // An unknown field inside the request, the id after it.
  std::string bytes = request.SerializeAsString();
  bytes = std::string("\x7a\x02\x38\x01", 4) + bytes + std::string("\x08\x2a", 2);
  ParsedRequest parsed;
  const absl::Status status = ParseComputeManyRequest(Cut(bytes, GetParam()), parsed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(status).reason, "UNKNOWN_FIELD");
  EXPECT_EQ(GetErrorDetail(status).field, "ComputeRequest.7");
  EXPECT_EQ(parsed.request_id, 42U);
}

TEST_P(CodecTest, AccumulateReadsTheSnapshotFlag) {
  v1::AccumulateRequest request;
  request.set_snapshot(true);
  request.set_chunk(std::string(100, 'x'));
  const std::string bytes = request.SerializeAsString();
  ParsedRequest parsed;
  ASSERT_TRUE(ParseAccumulateRequest(Cut(bytes, GetParam()), parsed).ok());
  EXPECT_TRUE(parsed.snapshot);
  EXPECT_EQ(parsed.payload_bytes, 100U);
  EXPECT_TRUE(parsed.spec.empty());
}

TEST_P(CodecTest, EveryTruncationIsRefused) {
  const std::string bytes = Example("payload").SerializeAsString();
  for (size_t length = 1; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    v1::ComputeRequest message;
    ParsedRequest parsed;
    EXPECT_EQ(ParseComputeRequest(Cut(cut, GetParam()), parsed).ok(), message.ParseFromString(cut))
        << "length " << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Slices, CodecTest, ::testing::Values(1, 2, 3, 5, 7, 16, 1 << 20));

TEST(PlanTest, AbsentSpecMeansOneBinPerValue) {
  auto query = MakeQuery("", {});
  ASSERT_TRUE(query.ok());
  EXPECT_EQ((*query)->binning.bin_count(), 256U);
  EXPECT_FALSE((*query)->statistics);
}

struct BadSpec {
  const char* name;
  v1::Spec spec;
  const char* reason;
  const char* field;
};

template <typename Fill>
BadSpec Bad(const char* name, const char* reason, const char* field, Fill fill) {
  BadSpec bad{name, {}, reason, field};
  fill(bad.spec);
  return bad;
}

TEST(PlanTest, BadSpecsNameTheirField) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<BadSpec> cases = {
      Bad("quantile", "BAD_QUANTILE", "spec.quantiles[1]",
          [](v1::Spec& s) {
            s.add_quantiles(0);
            s.add_quantiles(1.5);
          }),
      Bad("nan quantile", "BAD_QUANTILE", "spec.quantiles[0]",
          [&](v1::Spec& s) { s.add_quantiles(nan); }),
      Bad("sample type", "UNKNOWN_ENUM_VALUE", "spec.sample_type",
          [](v1::Spec& s) { s.set_sample_type(static_cast<v1::SampleType>(13)); }),
      Bad("no binning", "BAD_BINNING", "spec.binning",
          [](v1::Spec& s) { s.set_sample_type(v1::SAMPLE_TYPE_FLOAT32); }),
      Bad("no range", "BAD_BINNING", "spec.binning.even",
          [](v1::Spec& s) {
            s.set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
            s.mutable_binning()->mutable_even()->set_bin_count(5);
          }),
      Bad("letters of words", "BAD_BINNING", "spec.binning.alphabet",
          [](v1::Spec& s) {
            s.set_sample_type(v1::SAMPLE_TYPE_UINT16);
            s.mutable_binning()->mutable_alphabet()->set_symbol_count(5);
          }),
      Bad("no bins", "BAD_BINNING", "spec.binning.even.bin_count",
          [](v1::Spec& s) { s.mutable_binning()->mutable_even(); }),
  };
  for (const BadSpec& bad : cases) {
    const absl::Status status = MakeQuery(bad.spec.SerializeAsString(), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.name;
    EXPECT_EQ(GetErrorDetail(status).reason, bad.reason) << bad.name;
    EXPECT_EQ(GetErrorDetail(status).field, bad.field) << bad.name << ": " << status.message();
  }
}

TEST(PlanTest, ARefusedQuantileIsShownInFull) {
  v1::Spec spec;
  spec.add_quantiles(1.0000000000000002);
  const absl::Status status = MakeQuery(spec.SerializeAsString(), {}).status();
  EXPECT_EQ(status.message(), "spec.quantiles[0]: 1.0000000000000002 is not between 0 and 1");
}

TEST(PlanTest, EachTypeHasAPlan) {
  v1::Spec spec;
  spec.mutable_binning()->mutable_even()->set_bin_count(10);
  spec.mutable_binning()->mutable_even()->set_lower(-1);
  spec.mutable_binning()->mutable_even()->set_upper(1);
  for (int number = 0; number <= v1::SampleType_MAX; ++number) {
    spec.set_sample_type(static_cast<v1::SampleType>(number));
    const auto query = MakeQuery(spec.SerializeAsString(), {});
    ASSERT_TRUE(query.ok()) << number << query.status();
    EXPECT_EQ((*query)->plan->Now().type(), (*query)->sample_type) << number;
    EXPECT_EQ((*query)->plan->Now().counts_values(), number <= 1) << number;
    EXPECT_EQ(static_cast<int>((*query)->sample_type), std::max(number - 1, 0));
  }
}

// Backends that hold so many counters and make tables for each payload: GPUs.
TEST(PlanTest, WhatOnlyGpusCount) {
  const QueryLimits limits = {
      .counters_max = 5003, .phases = {.row_bins = 1000, .pixel_bytes = 64}, .direct = false};
  v1::Spec spec;
  spec.set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
  auto* even = spec.mutable_binning()->mutable_even();
  even->set_lower(-1);
  even->set_upper(1);
  even->set_bin_count(5000);
  const auto query = MakeQuery(spec.SerializeAsString(), limits);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_NE((*query)->plan->made(), nullptr);
  even->set_bin_count(5001);
  const ErrorDetail more = GetErrorDetail(MakeQuery(spec.SerializeAsString(), limits).status());
  EXPECT_EQ(more.reason, "TOO_MANY_BINS");
  EXPECT_EQ(more.field, "spec.binning");
  EXPECT_EQ(more.limit, 5000U);
  spec.set_sample_type(v1::SAMPLE_TYPE_UINT8);  // whose values are counted
  EXPECT_TRUE(MakeQuery(spec.SerializeAsString(), limits).ok());
  spec.mutable_rows()->mutable_windows()->set_samples(10);
  EXPECT_TRUE(MakeQuery(spec.SerializeAsString(), limits).ok());
  spec.set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
  even->set_bin_count(1001);
  const ErrorDetail bins = GetErrorDetail(MakeQuery(spec.SerializeAsString(), limits).status());
  EXPECT_EQ(bins.reason, "TOO_MANY_BINS");
  EXPECT_EQ(bins.field, "spec.binning");
  EXPECT_EQ(bins.limit, 1000U);
  even->set_bin_count(1000);
  spec.mutable_rows()->set_channels(16);
  EXPECT_TRUE(MakeQuery(spec.SerializeAsString(), limits).ok());
  spec.mutable_rows()->set_channels(17);
  const ErrorDetail channels = GetErrorDetail(MakeQuery(spec.SerializeAsString(), limits).status());
  EXPECT_EQ(channels.reason, "BAD_ROWS");
  EXPECT_EQ(channels.field, "spec.rows.channels");
  EXPECT_EQ(channels.limit, 16U);
  spec.clear_rows();
  even->clear_lower();
  even->clear_upper();
  even->set_range_of_data(true);
  const auto own = MakeQuery(spec.SerializeAsString(), limits);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ((*own)->plan->made(), nullptr);  // it is of no use
}

TEST(PlanTest, UnknownFieldsAreRefusedAtEachLevel) {
  const std::string unknown("\xf8\x01\x01", 3);  // field 31, varint 1
  v1::Spec spec;
  EXPECT_EQ(GetErrorDetail(MakeQuery(unknown, {}).status()).field, "spec.31");
  spec.mutable_binning()->mutable_even()->set_bin_count(3);
  auto* even = spec.mutable_binning()->mutable_even();
  v1::Binning::Even::GetReflection()->MutableUnknownFields(even)->AddVarint(31, 1);
  EXPECT_EQ(GetErrorDetail(MakeQuery(spec.SerializeAsString(), {}).status()).field,
            "spec.binning.even.31");
}

TEST(PlanTest, TheCacheTellsSpecsAndLimitsApart) {
  v1::Spec spec;
  spec.mutable_binning()->mutable_even()->set_bin_count(3);
  const std::string three = spec.SerializeAsString();
  spec.mutable_binning()->mutable_even()->set_bin_count(4);
  const std::string four = spec.SerializeAsString();
  EXPECT_EQ((*MakeQueryCached(three, {}))->binning.bin_count(), 3U);
  EXPECT_EQ((*MakeQueryCached(four, {}))->binning.bin_count(), 4U);
  EXPECT_EQ(*MakeQueryCached(three, {}), *MakeQueryCached(three, {}));
  EXPECT_FALSE(MakeQueryCached(four, {.bin_count_max = 3}).ok());
}

// All threads share a cache that is searched entry by entry: only plans are large enough to keep
// its entries few.
TEST(PlanTest, ThreadsShareLargePlansOnly) {
  const auto are_shared = [](v1::SampleType type) {
    v1::Spec spec;
    spec.set_sample_type(type);
    auto* even = spec.mutable_binning()->mutable_even();
    even->set_bin_count(kPlanBinsAtOnceMax + 1);
    even->set_lower(0);
    even->set_upper(200);
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

Answer ExampleAnswer() {
  Answer answer;
  answer.histogram = {.counts = {1, 0, uint64_t{1} << 40, 7},
                      .samples = 300,
                      .below = 1,
                      .above = 0,
                      .ignored = 130};
  Statistics s;
  s.minimum = 0.0;  // present although zero
  s.mean = 1.5;
  s.quantiles = {0.0, 2.5};
  answer.statistics = s;
  answer.edges = {0, 1, 2, 3, 4};
  answer.receipt.batch = {.backend = "cpu",
                          .kernel = "scalar",
                          .payloads = 3,
                          .gather_ns = 0,
                          .transfer_ns = 5,
                          .kernel_ns = 1000};
  answer.receipt.queue_ns = 128;
  answer.receipt.total_ns = 1 << 20;
  return answer;
}

std::string Encode(const ReplyEncoder& encoder) {
  std::string bytes(encoder.size(), '?');
  auto* begin = reinterpret_cast<uint8_t*>(bytes.data());
  EXPECT_EQ(encoder.Write(begin), begin + encoder.size());
  return bytes;
}

TEST(EncodeTest, IsWhatTheGeneratedCodeWrites) {
  const Answer answer = ExampleAnswer();
  v1::ComputeResponse response;
  ASSERT_TRUE(response.ParseFromString(Encode(ReplyEncoder::ComputeResponse(answer, false))));
  EXPECT_EQ(response.SerializeAsString(), Encode(ReplyEncoder::ComputeResponse(answer, false)));
  EXPECT_EQ(response.histogram().counts(2), uint64_t{1} << 40);
  EXPECT_EQ(response.histogram().ignored(), 130U);
  EXPECT_TRUE(response.histogram().statistics().has_minimum());
  EXPECT_FALSE(response.histogram().statistics().has_maximum());
  EXPECT_EQ(response.histogram().statistics().quantiles(1), 2.5);
  EXPECT_EQ(response.histogram().edges_size(), 5);
  EXPECT_EQ(response.receipt().kernel(), "scalar");
  EXPECT_EQ(response.receipt().transfer_ns(), 5U);

  ASSERT_TRUE(response.ParseFromString(Encode(ReplyEncoder::ComputeResponse(answer, true))));
  EXPECT_EQ(response.histogram().counts_size(), 0);
  EXPECT_EQ(response.histogram().samples(), 300U);
}

TEST(EncodeTest, StreamReplies) {
  const Answer answer = ExampleAnswer();
  v1::ComputeManyResponse many;
  ASSERT_TRUE(many.ParseFromString(Encode(ReplyEncoder::ComputeManyResponse(answer, false, 77))));
  EXPECT_EQ(many.request_id(), 77U);
  EXPECT_EQ(many.response().histogram().counts_size(), 4);
  ASSERT_TRUE(many.ParseFromString(Encode(ReplyEncoder::ComputeManyResponse(Answer{}, false, 0))));
  EXPECT_TRUE(many.has_response());

  v1::AccumulateResponse accumulated;
  ASSERT_TRUE(accumulated.ParseFromString(
      Encode(ReplyEncoder::AccumulateResponse(answer, false, true, 12))));
  EXPECT_TRUE(accumulated.final());
  EXPECT_EQ(accumulated.chunks(), 12U);
  EXPECT_EQ(accumulated.histogram().samples(), 300U);
}

TEST(EncodeTest, ErrorsCarryTheirDetail) {
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, "full",
                {.reason = "QUEUE_FULL", .field = "payload", .limit = 5, .retry_after_ms = 20});
  v1::ComputeManyResponse many;
  ASSERT_TRUE(many.ParseFromString(EncodeComputeManyError(9, status)));
  EXPECT_EQ(many.request_id(), 9U);
  EXPECT_EQ(many.error().code(), 8);
  EXPECT_EQ(many.error().message(), "full");
  EXPECT_EQ(many.error().reason(), "QUEUE_FULL");
  EXPECT_EQ(many.error().limit(), 5U);
  EXPECT_EQ(many.error().retry_after_ms(), 20U);
}

}  // namespace
}  // namespace histogram::server
