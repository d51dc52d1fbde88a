// Parses the three request messages without copying their payloads.
//
// The parser walks a message tag by tag over its slices. The payload becomes a list of fragments of
// the slices. Generated protobuf code parses the spec. The server refuses unknown field numbers and
// enum values: an answer that ignores part of a request is wrong. Otherwise the semantics are
// protobuf's: fields come in any order, the last payload wins, repeated specs merge, tags may lie
// across slices.
//
// No gRPC here, so that a fuzzer can compare it with the generated code. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_CODEC_H_
#define HISTOGRAM_SERVER_REQUEST_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/batch.h"
#include "server/base/observer.h"

namespace histogram::server {

// A parsed request. The fragments, and a spec that lies in one slice, point into the message's
// slices, which outlive it. Parsing resets it, so it can be reused.
struct ParsedRequest {
  using Fragments = absl::InlinedVector<Fragment, 4>;

  std::string_view spec;  // the serialized Spec, contiguous; empty when absent
  Fragments payload;
  uint64_t payload_bytes = 0;
  uint64_t reply_bytes = 0;  // set by Admit: an upper bound of the encoded reply
  uint64_t row_bytes = 0;    // set by Admit: memory for counting its rows, beside the reply
  uint64_t request_id = 0;   // ComputeManyRequest only; set even when parsing fails after it
  bool snapshot = false;     // AccumulateRequest only

  std::string spec_storage;  // holds a spec that lies in several slices
};

// INVALID_ARGUMENT with the message "FIELD: MESSAGE".
absl::Status InvalidField(const char* reason, const std::string& field, const std::string& message,
                          uint64_t limit = 0);
// INVALID_ARGUMENT (reason MALFORMED_MESSAGE): `message`, a message's name, is no valid protobuf.
absl::Status Malformed(const char* message);
// INVALID_ARGUMENT (reason UNKNOWN_FIELD).
absl::Status UnknownField(const char* message, uint32_t number);

// Parses a message of the method. INVALID_ARGUMENT (reasons MALFORMED_MESSAGE, UNKNOWN_FIELD,
// SPEC_TOO_LARGE). REQUIRES: the method's messages have a payload.
absl::Status ParseRequest(Method method, absl::Span<const Fragment> message, ParsedRequest& out);

// The most bytes of a serialized Spec.
inline constexpr uint64_t kSpecBytesMax = uint64_t{2} << 20;

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_CODEC_H_
