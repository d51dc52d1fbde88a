// The request codec against the generated protobuf code.
//
// Input: one byte for the kind of message (from 128 on to a server that takes 2^24 bins), one for
// the number of cuts, one byte for the length of each slice but the last, then the message.
// Whenever protobuf parses the message without unknown fields, the codec must read the same spec,
// payload, id and flag out of its slices, or refuse the spec as too large; otherwise the codec, or
// MakeQuery after it, must refuse.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"
#include "server/request/codec.h"
#include "server/request/query.h"
#include "tests/fuzz/fuzz_support.h"

namespace {

using histogram::GetErrorDetail;
using histogram::server::MakeQuery;
using histogram::server::MakeQueryCached;
using histogram::server::Method;
using histogram::server::ParsedRequest;
using histogram::server::Query;
using histogram::server::QueryLimits;
namespace v1 = histogram::v1;

// Whether `message` or a message in it holds a field that the generated code does not know.
bool HasUnknownFields(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  return std::any_of(fields.begin(), fields.end(), [&](const auto* field) {
    return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
           HasUnknownFields(reflection.GetMessage(message, field));
  });
}

// What the generated code makes of the message.
struct Reference {
  bool parsed = false;
  bool unknown_fields = false;
  bool own_fields_known = false;  // of the outermost message
  v1::Spec spec;
  std::string payload;
  uint64_t request_id = 0;
  bool snapshot = false;
};

template <typename Message>
Reference Parse(std::string_view bytes, Message& message) {
  Reference reference;
  reference.parsed = message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!reference.parsed) return reference;
  reference.unknown_fields = HasUnknownFields(message);
  reference.own_fields_known = message.GetReflection()->GetUnknownFields(message).empty();
  return reference;
}

Reference ParseWithProtobuf(Method method, std::string_view bytes) {
  switch (method) {
    case Method::kCompute: {
      v1::ComputeRequest message;
      Reference reference = Parse(bytes, message);
      reference.spec = message.spec();
      reference.payload = message.payload();
      return reference;
    }
    case Method::kComputeMany: {
      v1::ComputeManyRequest message;
      Reference reference = Parse(bytes, message);
      reference.spec = message.request().spec();
      reference.payload = message.request().payload();
      reference.request_id = message.request_id();
      return reference;
    }
    case Method::kAccumulate: {
      v1::AccumulateRequest message;
      Reference reference = Parse(bytes, message);
      reference.spec = message.spec();
      reference.payload = message.chunk();
      reference.snapshot = message.snapshot();
      return reference;
    }
    case Method::kDescribe:
      break;
  }
  return {};
}

void CheckRefusal(const absl::Status& status) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument, status.ToString());
  FUZZ_CHECK(!GetErrorDetail(status).reason.empty(), status.ToString());
  FUZZ_CHECK(!status.message().empty(), status.ToString());
}

void CheckPlan(const Query& query, const v1::Spec& spec, const QueryLimits& limits) {
  FUZZ_CHECK(query.binning.bin_count() >= 1, "");
  FUZZ_CHECK(query.binning.bin_count() <= limits.bin_count_max, "");
  for (int value = 0; value < 256; ++value) {
    const int32_t bin = query.binning.bin_of(static_cast<uint8_t>(value));
    FUZZ_CHECK(bin >= histogram::Binning::kIgnored, std::to_string(bin));
    FUZZ_CHECK(bin < static_cast<int32_t>(query.binning.bin_count()), std::to_string(bin));
  }
  FUZZ_CHECK(query.quantiles.size() <= histogram::server::kQuantilesMax, "");
  FUZZ_CHECK(std::equal(query.quantiles.begin(), query.quantiles.end(), spec.quantiles().begin(),
                        spec.quantiles().end()),
             spec.DebugString());
  FUZZ_CHECK(query.statistics == (spec.statistics() || spec.quantiles_size() > 0),
             spec.DebugString());
  FUZZ_CHECK(query.edges == (spec.edges() && query.binning.has_edges()), spec.DebugString());
  FUZZ_CHECK(query.omit_counts == spec.omit_counts(), spec.DebugString());
  FUZZ_CHECK(query.sparse == spec.sparse(), spec.DebugString());
  FUZZ_CHECK(query.rows.has_value() == spec.has_rows(), spec.DebugString());
  FUZZ_CHECK(!(query.sparse && query.rows.has_value()), spec.DebugString());
  const int type = static_cast<int>(query.sample_type) + 1;
  FUZZ_CHECK(type == std::max(static_cast<int>(spec.sample_type()), 1), spec.DebugString());
  const histogram::Plan plan = query.plan->Now();
  FUZZ_CHECK(plan.type() == query.sample_type, spec.DebugString());
  FUZZ_CHECK(plan.bin_count() == query.binning.bin_count(), spec.DebugString());
  for (const uint64_t samples : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
    const uint64_t bytes = query.ReplyBytes(samples);
    const uint64_t most =
        512 + 8 * query.quantiles.size() + 8 + uint64_t{query.binning.bin_count()} * 20;
    FUZZ_CHECK(bytes >= 512 && bytes <= most, std::to_string(bytes));
  }
  if (!plan.counts_values()) {
    FUZZ_CHECK(query.plan->made() == nullptr, spec.DebugString());
    FUZZ_CHECK(query.plan->bytes() >= 4 * uint64_t{query.binning.bin_count()}, "");
  }
  if (query.rows.has_value()) {
    for (const uint64_t samples : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 26}) {
      static_cast<void>(query.rows->Stretches(samples));
    }
  }
}

// The same query, or the same error, with and without the cache, the first time and the second.
void CheckCache(std::string_view spec, const absl::StatusOr<std::shared_ptr<const Query>>& query,
                const QueryLimits& limits) {
  for (int i = 0; i < 2; ++i) {
    const auto cached = MakeQueryCached(spec, limits);
    FUZZ_CHECK(cached.status() == query.status(), cached.status().ToString());
    if (!query.ok()) continue;
    FUZZ_CHECK((*cached)->binning.table() == (*query)->binning.table(), "");
    FUZZ_CHECK((*cached)->binning.bin_count() == (*query)->binning.bin_count(), "");
    FUZZ_CHECK((*cached)->quantiles == (*query)->quantiles, "");
    FUZZ_CHECK((*cached)->statistics == (*query)->statistics, "");
    FUZZ_CHECK((*cached)->edges == (*query)->edges, "");
    FUZZ_CHECK((*cached)->omit_counts == (*query)->omit_counts, "");
    FUZZ_CHECK((*cached)->ReplyBytes(1000) == (*query)->ReplyBytes(1000), "");
    FUZZ_CHECK((*cached)->counter_bytes == (*query)->counter_bytes, "");
  }
}

void CheckPayload(const ParsedRequest& parsed, const SlicedMessage& message,
                  const std::string& want) {
  std::string payload;
  for (const histogram::Fragment& piece : parsed.payload) {
    FUZZ_CHECK(message.Holds(piece), "a fragment of the payload was copied");
    payload.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  FUZZ_CHECK(payload == want, "");
  FUZZ_CHECK(parsed.payload_bytes == want.size(), std::to_string(parsed.payload_bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {  // a message that does not parse is no news here
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  (void)quiet;

  Input input(data, size);
  const uint8_t first = input.TakeByte();
  const auto method = static_cast<Method>(first % 3);  // those with payloads
  std::vector<size_t> lengths(input.TakeByte() % 64);
  for (size_t& length : lengths) length = input.TakeByte();
  const std::string_view bytes = input.TakeRest();

  const Reference want = ParseWithProtobuf(method, bytes);
  const SlicedMessage message(bytes, lengths);
  ParsedRequest parsed;
  const absl::Status status = ParseRequest(method, message.fragments(), parsed);
  if (want.own_fields_known && GetErrorDetail(status).reason != "MALFORMED_MESSAGE") {
    FUZZ_CHECK(parsed.request_id == want.request_id, status.ToString());
  }
  if (!status.ok()) {
    CheckRefusal(status);
    const bool too_large = GetErrorDetail(status).reason == "SPEC_TOO_LARGE";
    FUZZ_CHECK(!want.parsed || want.unknown_fields || too_large, status.ToString());
    return 0;
  }

  QueryLimits limits;
  limits.bin_count_max = first < 128 ? 4096 : histogram::kBinCountMax;
  const auto query = MakeQuery(parsed.spec, limits);
  if (!query.ok()) CheckRefusal(query.status());
  CheckCache(parsed.spec, query, limits);
  FUZZ_CHECK(want.parsed || !query.ok(), "protobuf refuses what the codec took");
  FUZZ_CHECK(!want.unknown_fields || !query.ok(), "an unknown field was overlooked");
  if (!want.parsed) return 0;

  // The spec may still be refused by MakeQuery; what was read of the message must be right anyway.
  v1::Spec spec;
  FUZZ_CHECK(spec.ParseFromArray(parsed.spec.data(), static_cast<int>(parsed.spec.size())), "");
  FUZZ_CHECK(spec.SerializeAsString() == want.spec.SerializeAsString(),
             spec.DebugString() + "instead of\n" + want.spec.DebugString());
  CheckPayload(parsed, message, want.payload);
  FUZZ_CHECK(parsed.snapshot == want.snapshot, "");
  if (query.ok()) CheckPlan(**query, want.spec, limits);
  return 0;
}
