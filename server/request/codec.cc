#include "server/request/codec.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/error.h"
#include "server/request/wire.h"

namespace histogram::server {

absl::Status InvalidField(const char* reason, const std::string& field, const std::string& message,
                          uint64_t limit) {
  return MakeError(absl::StatusCode::kInvalidArgument, absl::StrCat(field, ": ", message),
                   {.reason = reason, .field = field, .limit = limit});
}

absl::Status Malformed(const char* message) {
  return InvalidField("MALFORMED_MESSAGE", message, "the bytes are not a valid protobuf message");
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

std::string_view TextOf(Fragment piece) {
  return {reinterpret_cast<const char*>(piece.data()), piece.size()};
}

bool IsSpec(std::string_view bytes) {
  return v1::Spec().ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Collects the occurrences of a spec. One that lies in a single slice stays where it is. Several
// are put behind each other, which merges them as protobuf does; each is valid by itself.
class SpecCollector {
 public:
  // REQUIRES: length > 0.
  absl::Status Add(wire::Reader& reader, uint64_t length, ParsedRequest& out) {
    total_bytes_ += length;
    if (total_bytes_ > kSpecBytesMax) {
      return InvalidField(
          "SPEC_TOO_LARGE", "spec",
          absl::StrCat(total_bytes_, " bytes are more than the limit of ", kSpecBytesMax),
          kSpecBytesMax);
    }
    absl::InlinedVector<Fragment, 4> pieces;
    reader.Take(length, [&](Fragment piece) { pieces.push_back(piece); });
    const bool first = ++occurrences_ == 1;
    if (first && pieces.size() == 1) {
      out.spec = TextOf(pieces.front());
      return absl::OkStatus();
    }
    if (occurrences_ == 2) {
      if (!IsSpec(out.spec)) return Malformed("spec");
      out.spec_storage = std::string(out.spec);
    }
    const size_t begin = out.spec_storage.size();
    for (const Fragment piece : pieces) out.spec_storage.append(TextOf(piece));
    out.spec = out.spec_storage;
    return first || IsSpec(out.spec.substr(begin)) ? absl::OkStatus() : Malformed("spec");
  }

 private:
  int occurrences_ = 0;
  uint64_t total_bytes_ = 0;
};

void ResetRequest(ParsedRequest& out) {
  out.spec = {};
  out.payload.clear();
  out.payload_bytes = 0;
  out.request_id = 0;
  out.snapshot = false;
  out.spec_storage.clear();
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
        out.payload.clear();  // the last one wins
        out.payload_bytes = length;
        reader.Take(length, [&](Fragment piece) { out.payload.push_back(piece); });
      } else if (length == 0) {
        // An empty spec says nothing, and a message has room for hundreds of millions of them.
      } else if (absl::Status status = specs.Add(reader, length, out); !status.ok()) {
        return status;
      }
    } else {
      return UnknownField(name, field);
    }
  }
  return reader.remaining() == end ? absl::OkStatus() : Malformed(name);
}

absl::Status WalkComputeManyRequest(wire::Reader& reader, SpecCollector& specs,
                                    ParsedRequest& out) {
  constexpr const char* kName = "ComputeManyRequest";
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
  return first_error;
}

}  // namespace

absl::Status ParseRequest(Method method, absl::Span<const Fragment> message, ParsedRequest& out) {
  assert(TraitsOf(method).carries_payloads);
  ResetRequest(out);
  wire::Reader reader(message);
  SpecCollector specs;
  if (method == Method::kComputeMany) return WalkComputeManyRequest(reader, specs, out);
  const bool accumulate = method == Method::kAccumulate;
  return WalkRequest(reader, 0, accumulate ? "AccumulateRequest" : "ComputeRequest", accumulate,
                     specs, out);
}

}  // namespace histogram::server
