#include "server/request/codec.h"

#include <google/protobuf/io/coded_stream.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

constexpr uint32_t kSpecField = 1;     // ComputeRequest.spec, AccumulateRequest.spec
constexpr uint32_t kSourceField = 15;  // .payload, .chunk; ComputeManyRequest.request
constexpr uint32_t kRequestIdField = 1;
constexpr uint32_t kSnapshotField = 2;

absl::Status Malformed(const char* message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat(message, ": the bytes are not a valid protobuf message"),
                   {.reason = "MALFORMED_MESSAGE", .field = message});
}

absl::Status UnknownField(const char* message, uint32_t number) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat(message, ": field number ", number,
                                " is unknown to this server, which refuses what it cannot answer"),
                   {.reason = "UNKNOWN_FIELD", .field = absl::StrCat(message, ".", number)});
}

// Collects the occurrences of a spec. One that lies in a single slice stays where it is; several
// are merged as protobuf merges them, each valid by itself, with work that grows with their bytes.
class SpecCollector {
 public:
  absl::Status Add(wire::Reader& reader, uint64_t length, ParsedRequest& out) {
    total_bytes_ += length;
    if (total_bytes_ > kSpecBytesMax) {
      return MakeError(
          absl::StatusCode::kInvalidArgument,
          absl::StrCat("spec: ", total_bytes_, " bytes are more than the limit of ", kSpecBytesMax),
          {.reason = "SPEC_TOO_LARGE", .field = "spec", .limit = kSpecBytesMax});
    }
    std::string joined;
    Fragment first;
    int pieces = 0;
    reader.Take(length, [&](Fragment piece) {
      if (++pieces == 1) {
        first = piece;
        return;
      }
      if (pieces == 2) joined.assign(reinterpret_cast<const char*>(first.data()), first.size());
      joined.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    if (++occurrences_ > 1) return Merge(pieces <= 1 ? View(first) : joined, out);
    if (pieces <= 1) {
      out.spec = View(first);
    } else {
      out.spec_storage = std::move(joined);
      out.spec = out.spec_storage;
    }
    return absl::OkStatus();
  }

  // After the last field.
  void Finish(ParsedRequest& out) {
    if (!merged_.has_value()) return;
    out.spec_storage = merged_->SerializeAsString();
    out.spec = out.spec_storage;
  }

 private:
  static std::string_view View(Fragment piece) {
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }
  static bool MergeBytes(std::string_view bytes, v1::Spec& into) {
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                  static_cast<int>(bytes.size()));
    return into.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  }

  absl::Status Merge(std::string_view later, const ParsedRequest& out) {
    if (!merged_.has_value() && !MergeBytes(out.spec, merged_.emplace())) return Malformed("spec");
    return MergeBytes(later, *merged_) ? absl::OkStatus() : Malformed("spec");
  }

  int occurrences_ = 0;
  uint64_t total_bytes_ = 0;
  std::optional<v1::Spec> merged_;  // from the second occurrence on
};

void ResetRequest(ParsedRequest& out) {
  out.spec = {};
  out.payload.clear();
  out.payload_bytes = 0;
  out.request_id = 0;
  out.snapshot = false;
  out.spec_storage.clear();
}

void TakePayload(wire::Reader& reader, uint64_t length, ParsedRequest& out) {
  out.payload.clear();  // the last one wins
  out.payload_bytes = length;
  reader.Take(length, [&](Fragment piece) { out.payload.push_back(piece); });
}

// Walks the fields of a ComputeRequest or an AccumulateRequest up to `end` bytes before the end.
absl::Status WalkRequest(wire::Reader& reader, uint64_t end, const char* name, bool accumulate,
                         SpecCollector& specs, ParsedRequest& out) {
  while (reader.remaining() > end) {
    uint32_t tag = 0;
    uint64_t length = 0;
    if (!reader.ReadTag(tag) || reader.remaining() < end) return Malformed(name);
    const uint32_t field = tag >> 3;
    const uint32_t type = tag & 7;
    if (accumulate && field == kSnapshotField && type == wire::kVarint) {
      uint64_t value = 0;
      if (!reader.ReadVarint(value)) return Malformed(name);
      out.snapshot = value != 0;
    } else if ((field == kSpecField || field == kSourceField) && type == wire::kBytes) {
      if (!reader.ReadLength(length) || reader.remaining() < end + length) return Malformed(name);
      if (field == kSourceField) {
        TakePayload(reader, length, out);
      } else if (absl::Status status = specs.Add(reader, length, out); !status.ok()) {
        return status;
      }
    } else {
      return UnknownField(name, field);
    }
  }
  return reader.remaining() == end ? absl::OkStatus() : Malformed(name);
}

}  // namespace

absl::Status ParseComputeRequest(absl::Span<const Fragment> message, ParsedRequest& out) {
  ResetRequest(out);
  wire::Reader reader(message);
  SpecCollector specs;
  absl::Status status = WalkRequest(reader, 0, "ComputeRequest", /*accumulate=*/false, specs, out);
  specs.Finish(out);
  return status;
}

absl::Status ParseAccumulateRequest(absl::Span<const Fragment> message, ParsedRequest& out) {
  ResetRequest(out);
  wire::Reader reader(message);
  SpecCollector specs;
  absl::Status status =
      WalkRequest(reader, 0, "AccumulateRequest", /*accumulate=*/true, specs, out);
  specs.Finish(out);
  return status;
}

absl::Status ParseComputeManyRequest(absl::Span<const Fragment> message, ParsedRequest& out) {
  constexpr const char* kName = "ComputeManyRequest";
  ResetRequest(out);
  wire::Reader reader(message);
  SpecCollector specs;
  // An error does not stop the walk before the id is known: the reply must carry it.
  absl::Status first_error;
  while (reader.remaining() > 0) {
    uint32_t tag = 0;
    uint64_t length = 0;
    if (!reader.ReadTag(tag)) return first_error.ok() ? Malformed(kName) : first_error;
    const uint32_t field = tag >> 3;
    const uint32_t type = tag & 7;
    if (field == kRequestIdField && type == wire::kVarint) {
      if (!reader.ReadVarint(out.request_id)) return Malformed(kName);
    } else if (field == kSourceField && type == wire::kBytes) {
      if (!reader.ReadLength(length)) return first_error.ok() ? Malformed(kName) : first_error;
      const uint64_t end = reader.remaining() - length;
      absl::Status status = first_error.ok()
                                ? WalkRequest(reader, end, "ComputeRequest", false, specs, out)
                                : absl::OkStatus();
      if (!status.ok()) first_error = std::move(status);
      if (reader.remaining() < end) return first_error.ok() ? Malformed(kName) : first_error;
      reader.Take(reader.remaining() - end, [](Fragment) {});
    } else {
      return first_error.ok() ? UnknownField(kName, field) : first_error;
    }
  }
  specs.Finish(out);
  return first_error;
}

namespace {

// INVALID_ARGUMENT naming the first unknown field of `message`, whose path is `path`.
absl::Status RefuseUnknown(const google::protobuf::Message& message, const char* path) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  return unknown.empty() ? absl::OkStatus()
                         : UnknownField(path, static_cast<uint32_t>(unknown.field(0).number()));
}

absl::Status RefuseUnknownInBinning(const v1::Binning& binning) {
  if (absl::Status s = RefuseUnknown(binning, "spec.binning"); !s.ok()) return s;
  switch (binning.kind_case()) {
    case v1::Binning::kEven:
      return RefuseUnknown(binning.even(), "spec.binning.even");
    case v1::Binning::kEdges:
      return RefuseUnknown(binning.edges(), "spec.binning.edges");
    case v1::Binning::kAlphabet:
      return RefuseUnknown(binning.alphabet(), "spec.binning.alphabet");
    case v1::Binning::kByteTable:
      return RefuseUnknown(binning.byte_table(), "spec.binning.byte_table");
    case v1::Binning::KIND_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The library names a field below the spec's binning, the API one below the request.
absl::StatusOr<Binning> OrStatus(Result<Binning> binning) {
  if (binning.ok()) return *std::move(binning);
  const Error& error = binning.error();
  return MakeError(
      absl::StatusCode::kInvalidArgument, absl::StrCat("spec.binning.", error.message),
      {.reason = error.code == ErrorCode::kTooManyBins ? "TOO_MANY_BINS" : "BAD_BINNING",
       .field = absl::StrCat("spec.binning.", error.field),
       .limit = error.limit});
}

absl::StatusOr<Binning> CompileBinning(const v1::Binning& proto, uint32_t bin_count_max) {
  const auto bound = [](bool has, double value) {
    return has ? std::optional<double>(value) : std::nullopt;
  };
  switch (proto.kind_case()) {
    case v1::Binning::kEven: {
      const auto& even = proto.even();
      return OrStatus(Binning::Even(even.bin_count(), bound(even.has_lower(), even.lower()),
                                    bound(even.has_upper(), even.upper()), bin_count_max));
    }
    case v1::Binning::kEdges:
      return OrStatus(Binning::Edges(
          absl::MakeConstSpan(proto.edges().edges().data(), proto.edges().edges().size()),
          bin_count_max));
    case v1::Binning::kAlphabet:
      return OrStatus(Binning::Alphabet(proto.alphabet().first_symbol(),
                                        proto.alphabet().symbol_count(),
                                        proto.alphabet().symbols_per_bin(), bin_count_max));
    case v1::Binning::kByteTable: {
      const auto& table = proto.byte_table();
      return OrStatus(Binning::ByteTable(
          table.bin_count(),
          absl::MakeConstSpan(table.bin_of_byte().data(), table.bin_of_byte().size()),
          bin_count_max));
    }
    case v1::Binning::KIND_NOT_SET:
      break;
  }
  if (kByteValues > bin_count_max) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("spec.binning: absent means ", kByteValues,
                                  " bins, more than the limit of ", bin_count_max),
                     {.reason = "TOO_MANY_BINS", .field = "spec.binning", .limit = bin_count_max});
  }
  return Binning::Identity();
}

absl::Status CheckQuantiles(const v1::Spec& spec, uint32_t quantiles_max) {
  if (static_cast<uint32_t>(spec.quantiles_size()) > quantiles_max) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("spec.quantiles: ", spec.quantiles_size(),
                     " quantiles are more than the limit of ", quantiles_max),
        {.reason = "TOO_MANY_QUANTILES", .field = "spec.quantiles", .limit = quantiles_max});
  }
  for (int i = 0; i < spec.quantiles_size(); ++i) {
    if (!(spec.quantiles(i) >= 0 && spec.quantiles(i) <= 1)) {  // also refuses NaN
      return MakeError(
          absl::StatusCode::kInvalidArgument,
          absl::StrCat("spec.quantiles[", i, "]: ", spec.quantiles(i), " is not between 0 and 1"),
          {.reason = "BAD_QUANTILE", .field = absl::StrCat("spec.quantiles[", i, "]"), .limit = 1});
    }
  }
  return absl::OkStatus();
}

// An upper bound of the encoded reply's size.
uint64_t ReplyBytes(const Plan& plan) {
  constexpr uint64_t kFixedPart = 512;  // totals, statistics, receipt, lengths
  uint64_t bytes = kFixedPart + plan.quantiles.size() * sizeof(double);
  if (!plan.omit_counts) bytes += uint64_t{plan.binning.bin_count()} * sizeof(uint64_t);
  if (plan.edges) bytes += (uint64_t{plan.binning.bin_count()} + 1) * sizeof(double);
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(std::string_view bytes,
                                                     const PlanLimits& limits) {
  v1::Spec spec;
  if (!spec.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Malformed("spec");
  if (absl::Status s = RefuseUnknown(spec, "spec"); !s.ok()) return s;
  if (!v1::SampleType_IsValid(spec.sample_type())) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     absl::StrCat("spec.sample_type: ", static_cast<int>(spec.sample_type()),
                                  " is unknown to this server; it knows UINT8 (1)"),
                     {.reason = "UNKNOWN_ENUM_VALUE", .field = "spec.sample_type", .limit = 1});
  }
  if (absl::Status s = RefuseUnknownInBinning(spec.binning()); !s.ok()) return s;
  if (absl::Status s = CheckQuantiles(spec, limits.quantiles_max); !s.ok()) return s;
  absl::StatusOr<Binning> binning = CompileBinning(spec.binning(), limits.bin_count_max);
  if (!binning.ok()) return binning.status();

  auto plan = std::make_shared<Plan>();
  plan->binning = *std::move(binning);
  plan->statistics = spec.statistics() || spec.quantiles_size() > 0;
  plan->quantiles.assign(spec.quantiles().begin(), spec.quantiles().end());
  plan->edges = spec.edges() && plan->binning.has_edges();
  plan->omit_counts = spec.omit_counts();
  plan->reply_bytes = ReplyBytes(*plan);
  return plan;
}

absl::StatusOr<std::shared_ptr<const Plan>> MakePlanCached(std::string_view bytes,
                                                           const PlanLimits& limits) {
  // A payload's binning costs more to compile than 4 KiB cost to count; specs repeat.
  constexpr size_t kEntries = 8;
  constexpr size_t kKeyBytesMax = 4096;
  struct Entry {
    std::string key;
    PlanLimits limits;
    std::shared_ptr<const Plan> plan;
  };
  thread_local std::array<Entry, kEntries> cache;
  if (bytes.size() > kKeyBytesMax) return MakePlan(bytes, limits);
  Entry& entry = cache[bytes.empty() ? 0 : absl::HashOf(bytes) % kEntries];
  if (entry.plan != nullptr && entry.key == bytes &&
      entry.limits.bin_count_max == limits.bin_count_max &&
      entry.limits.quantiles_max == limits.quantiles_max) {
    return entry.plan;
  }
  absl::StatusOr<std::shared_ptr<const Plan>> plan = MakePlan(bytes, limits);
  if (plan.ok()) entry = {std::string(bytes), limits, *plan};
  return plan;
}

}  // namespace histogram::server
