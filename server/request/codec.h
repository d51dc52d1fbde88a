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
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/batch.h"
#include "server/request/call.h"

namespace histogram::server {

// A parsed request. The fragments and, where possible, the spec point into the message's slices,
// which must outlive it. Reusable: parsing resets it.
struct ParsedRequest {
  using Fragments = absl::InlinedVector<Fragment, 4>;

  std::string_view spec;  // the serialized Spec, contiguous; empty when absent
  Fragments payload;
  uint64_t payload_bytes = 0;
  uint64_t request_id = 0;  // ComputeManyRequest only; set even when parsing fails after it
  bool snapshot = false;    // AccumulateRequest only

  std::string spec_storage;  // holds the spec where it does not lie in one slice
};

// Each answers INVALID_ARGUMENT (reasons MALFORMED_MESSAGE, UNKNOWN_FIELD, SPEC_TOO_LARGE).
absl::Status ParseComputeRequest(absl::Span<const Fragment> message, ParsedRequest& out);
absl::Status ParseComputeManyRequest(absl::Span<const Fragment> message, ParsedRequest& out);
absl::Status ParseAccumulateRequest(absl::Span<const Fragment> message, ParsedRequest& out);

struct PlanLimits {
  uint32_t bin_count_max = kBinCountMax;
  uint32_t quantiles_max = 1024;
};

// The largest serialized Spec that is looked at.
inline constexpr uint64_t kSpecBytesMax = uint64_t{2} << 20;

// Validates the bytes of a serialized Spec. INVALID_ARGUMENT with reason BAD_BINNING,
// TOO_MANY_BINS, BAD_QUANTILE, TOO_MANY_QUANTILES, UNKNOWN_FIELD, UNKNOWN_ENUM_VALUE or
// MALFORMED_MESSAGE.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(std::string_view bytes,
                                                     const PlanLimits& limits);

// MakePlan with a small cache of this thread's latest specs: most clients send the same one again.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlanCached(std::string_view bytes,
                                                           const PlanLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_CODEC_H_
