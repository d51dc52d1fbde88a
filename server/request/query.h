// Parses and validates a serialized Spec. Functions are thread-safe.
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
#include "kernels/plan_in_use.h"
#include "kernels/rows.h"

namespace histogram::server {

// The statistics that Spec.statistics_only names, one bit each.
enum class Wanted : uint8_t {
  kMinimumMaximum = 1 << 0,
  kMeanDeviation = 1 << 1,
  kMedian = 1 << 2,
  kMode = 1 << 3,
  kEntropy = 1 << 4,
  kOtsu = 1 << 5,
};

// A validated Spec: what to count and what to answer. Immutable. Requests share it.
struct Query {
  SampleType sample_type = SampleType::kU8;
  // With range_of_data: the right number of bins, over [0, 1] until the range is known.
  Binning binning = Binning::Identity();
  bool range_of_data = false;
  bool range_of_row = false;  // the same, and each row has its own
  std::optional<RowCut> rows;
  std::shared_ptr<PlanInUse> plan = std::make_shared<PlanInUse>(Plan());
  bool statistics = false;  // also set by quantiles
  uint8_t wanted = 0xFF;    // which statistics: bits of Wanted
  std::vector<double> quantiles;
  bool edges = false;
  bool omit_counts = false;
  bool sparse = false;
  // Memory of a request for counters and statistics. Its payload, its reply and its plan add to
  // that.
  uint64_t counter_bytes = 0;

  bool wants(Wanted statistic) const { return (wanted & static_cast<uint8_t>(statistic)) != 0; }
  // Whether the answer needs the order of all samples (of a row), which counts do not give.
  bool needs_order() const {
    return statistics && SampleBytes(sample_type) > 2 &&
           (wants(Wanted::kMedian) || !quantiles.empty());
  }
  // The number of counters, one for each bit pattern, that statistics of types of 8 and 16 bits
  // need. None for u8, whose plans count the patterns anyway.
  uint64_t pattern_counters() const {
    const bool counted = statistics && sample_type != SampleType::kU8;
    return counted && SampleBytes(sample_type) <= 2 ? uint64_t{1} << 8 * SampleBytes(sample_type)
                                                    : 0;
  }
  // Whether the payload is counted in phases, whatever the plan.
  bool in_phases() const { return range_of_data || rows.has_value(); }
  // Compiles a binning for a sample type. REQUIRES: binning.has_edges(), or the type is u8.
  void Set(const Binning& its_binning, SampleType type) {
    binning = its_binning;
    sample_type = type;
    plan = std::make_shared<PlanInUse>(*Plan::MakeFor(binning, type, /*samples=*/0));
  }
  // An upper bound of the encoded reply to a payload of `samples` samples, without its rows.
  uint64_t ReplyBytes(uint64_t samples) const;
};

// What the phases of the query need of a backend.
PhaseLimits NeedsOf(const Query& query);

// The query's bins over a range. Fails as MakeQuery does.
absl::StatusOr<Binning> BinsOver(const Query& query, double lower, double upper);
// The query with bins over the data's range, and a plan without tables.
std::shared_ptr<const Query> WithBins(const Query& query, const Binning& binning);

struct QueryLimits {
  uint32_t bin_count_max = 65536;
  // The most counters of typed samples that a backend has.
  uint64_t counters_max = UINT64_MAX;
  PhaseLimits phases = kAllPhases;  // the most that a backend has
  bool has_cpu = true;              // whether a CPU counts

  friend bool operator==(const QueryLimits&, const QueryLimits&) = default;
};

// Validates the bytes of a serialized Spec. INVALID_ARGUMENT with reason BAD_BINNING,
// TOO_MANY_BINS, BAD_ROWS, BAD_QUANTILE, TOO_MANY_QUANTILES, UNKNOWN_FIELD, UNKNOWN_ENUM_VALUE or
// MALFORMED_MESSAGE.
absl::StatusOr<std::shared_ptr<const Query>> MakeQuery(std::string_view bytes,
                                                       const QueryLimits& limits);

// MakeQuery with a cache, because most clients send the same spec again. Each thread caches its
// latest specs of few bins. All threads share a QueryCache for specs of many bins.
absl::StatusOr<std::shared_ptr<const Query>> MakeQueryCached(std::string_view bytes,
                                                             const QueryLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_QUERY_H_
