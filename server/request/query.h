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
#include "kernels/rows.h"

namespace histogram::server {

// What statistics_only names, a bit each.
enum class Answers : uint8_t {
  kMinimumMaximum = 1 << 0,
  kMeanDeviation = 1 << 1,
  kMedian = 1 << 2,
  kMode = 1 << 3,
  kEntropy = 1 << 4,
  kOtsu = 1 << 5,
};

// A validated Spec: what to count and what to answer. Immutable; shared between requests.
struct Query {
  SampleType sample_type = SampleType::kU8;
  // With range_of_data, bins over [0, 1]: as many as will be.
  Binning binning = Binning::Identity();
  bool range_of_data = false;
  std::optional<RowCut> rows;
  // What samples of that binning are counted by; absent: bytes, whose values are counted and then
  // folded.
  std::optional<Plan> plan;
  bool statistics = false;  // also set by quantiles
  uint8_t answers = 0xFF;   // of these: bits of Answers
  std::vector<double> quantiles;
  bool edges = false;
  bool omit_counts = false;
  bool sparse = false;
  uint64_t reply_bytes = 0;    // upper bound of the encoded reply, for admission
  uint64_t counter_bytes = 0;  // of typed samples: what they are counted into, for admission

  bool wants(Answers answer) const { return (answers & static_cast<uint8_t>(answer)) != 0; }
  // Whether answers need all samples at once: their order, which counts do not tell.
  bool needs_order() const {
    return statistics && SampleBytes(sample_type) > 2 && !rows.has_value() &&
           (wants(Answers::kMedian) || !quantiles.empty());
  }
  // Counters of each pattern of a sample, from which statistics of 8 and 16 bits are made.
  uint64_t pattern_counters() const {
    const bool counted = statistics && (plan.has_value() || range_of_data);
    return counted && SampleBytes(sample_type) <= 2 ? uint64_t{1} << 8 * SampleBytes(sample_type)
                                                    : 0;
  }
  // Whether a payload is counted by a WholeCount.
  bool as_a_whole() const { return range_of_data || rows.has_value(); }
};

// The query with its range known: bins from lower to upper. REQUIRES: range_of_data.
absl::StatusOr<std::shared_ptr<const Query>> WithRange(const Query& query, double lower,
                                                       double upper);

struct QueryLimits {
  uint32_t bin_count_max = kBinCountMax;
  uint32_t quantiles_max = 1024;
  bool typed = true;  // a backend counts samples other than bytes
};

// Validates the bytes of a serialized Spec. INVALID_ARGUMENT with reason BAD_BINNING,
// TOO_MANY_BINS, BAD_SAMPLE_TYPE, BAD_ROWS, BAD_QUANTILE, TOO_MANY_QUANTILES,
// UNKNOWN_FIELD, UNKNOWN_ENUM_VALUE or MALFORMED_MESSAGE.
absl::StatusOr<std::shared_ptr<const Query>> MakeQuery(std::string_view bytes,
                                                       const QueryLimits& limits);

// MakeQuery with a small cache of this thread's latest specs: most clients send the same one again.
absl::StatusOr<std::shared_ptr<const Query>> MakeQueryCached(std::string_view bytes,
                                                             const QueryLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_QUERY_H_
