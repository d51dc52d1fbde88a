// From the bytes of a request to what it asks for, without copying its payload.
//
// The three request messages are walked tag by tag over the slices that they arrived in: the
// payload becomes a list of fragments of those slices, the small spec is parsed by the generated
// protobuf code. Anything that this server does not know, a field number or an enum value, is
// refused: an answer that ignores part of the question is a wrong answer. The semantics are
// otherwise protobuf's own: fields in any order, the last payload wins, repeated specs merge, tags
// may lie across slices.
//
// No gRPC here, so that it can be fuzzed against the generated code. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_CODEC_H_
#define HISTOGRAM_SERVER_REQUEST_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/batch.h"

namespace histogram::server {

// A parsed request. The fragments and, where possible, the spec point into the message's slices,
// which must outlive it. Reusable: parsing resets it.
struct ParsedRequest {
  using Fragments = absl::InlinedVector<Fragment, 4>;

  std::string_view spec;  // the serialized Spec, contiguous; empty when absent
  Fragments payload;
  uint64_t payload_bytes = 0;
  uint64_t reply_bytes = 0;  // set by Admit: an upper bound of the encoded reply
  uint64_t row_bytes = 0;    // set by Admit: what counting its rows takes beside that
  uint64_t request_id = 0;   // ComputeManyRequest only; set even when parsing fails after it
  bool snapshot = false;     // AccumulateRequest only

  std::string spec_storage;  // holds the spec where it does not lie in one slice
};

// INVALID_ARGUMENT (reason MALFORMED_MESSAGE): the bytes of `message` are no protobuf message.
absl::Status Malformed(const char* message);
// INVALID_ARGUMENT (reason UNKNOWN_FIELD).
absl::Status UnknownField(const char* message, uint32_t number);

// Each answers INVALID_ARGUMENT (reasons MALFORMED_MESSAGE, UNKNOWN_FIELD, SPEC_TOO_LARGE).
absl::Status ParseComputeRequest(absl::Span<const Fragment> message, ParsedRequest& out);
absl::Status ParseComputeManyRequest(absl::Span<const Fragment> message, ParsedRequest& out);
absl::Status ParseAccumulateRequest(absl::Span<const Fragment> message, ParsedRequest& out);

// The largest serialized Spec that is looked at.
inline constexpr uint64_t kSpecBytesMax = uint64_t{2} << 20;

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_CODEC_H_
