#include "server/request/codec.h"

#include <google/protobuf/io/coded_stream.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/wire.h"

namespace histogram::server {

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

namespace {

constexpr uint32_t kSpecField = 1;     // ComputeRequest.spec, AccumulateRequest.spec
constexpr uint32_t kSourceField = 15;  // .payload, .chunk; ComputeManyRequest.request
constexpr uint32_t kRequestIdField = 1;
constexpr uint32_t kSnapshotField = 2;

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

}  // namespace histogram::server
