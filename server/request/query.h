// From the bytes of a serialized Spec to what is to be counted and answered.
//
// Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_QUERY_H_
#define HISTOGRAM_SERVER_REQUEST_QUERY_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/batch.h"

namespace histogram::server {

// A validated Spec: what to count and what to answer. Immutable; shared between requests.
struct Query {
  Binning binning = Binning::Identity();
  // What samples of that binning are counted by; absent: bytes, whose values are counted and then
  // folded.
  std::optional<Plan> plan;
  bool statistics = false;  // also set by quantiles
  std::vector<double> quantiles;
  bool edges = false;
  bool omit_counts = false;
  uint64_t reply_bytes = 0;    // upper bound of the encoded reply, for admission
  uint64_t counter_bytes = 0;  // of typed samples: what they are counted into, for admission

  // Whether answers need all samples at once: their order, which counts do not tell.
  bool needs_order() const { return statistics && SampleBytesOf(plan) > 2; }
  SampleType type() const { return plan.has_value() ? plan->type() : SampleType::kU8; }
};

struct QueryLimits {
  uint32_t bin_count_max = kBinCountMax;
  uint32_t quantiles_max = 1024;
  bool typed = true;  // a backend counts samples other than bytes
};

// Validates the bytes of a serialized Spec. INVALID_ARGUMENT with reason BAD_BINNING,
// TOO_MANY_BINS, BAD_SAMPLE_TYPE, BAD_QUANTILE, TOO_MANY_QUANTILES, UNKNOWN_FIELD,
// UNKNOWN_ENUM_VALUE or MALFORMED_MESSAGE.
absl::StatusOr<std::shared_ptr<const Query>> MakeQuery(std::string_view bytes,
                                                       const QueryLimits& limits);

// MakeQuery with a small cache of this thread's latest specs: most clients send the same one again.
absl::StatusOr<std::shared_ptr<const Query>> MakeQueryCached(std::string_view bytes,
                                                             const QueryLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_QUERY_H_
