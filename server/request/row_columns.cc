#include "server/request/row_columns.h"

#include <iterator>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "server/request/answer.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Columns of one number a row: those but counts, those of statistics, and those of ranges.
constexpr uint64_t kNumberColumns = std::size(RowColumns::kWhole) - 1;
constexpr uint64_t kStatistics = std::size(kStatisticFields), kRanges = 2;
static_assert(kStatistics + 1 + kRanges == std::size(RowColumns::kReal));

// The numbers of a row that are whole, and those that are doubles.
uint64_t WholesOfARow(const Query& query) {
  return kNumberColumns + (query.omit_counts ? 0 : query.binning.bin_count());
}
uint64_t RealsOfARow(const Query& query) {
  const uint64_t statistics = query.statistics ? kStatistics + query.quantiles.size() : 0;
  return statistics + (query.range_of_row ? kRanges : 0);
}

}  // namespace

uint64_t RowColumns::Bytes(const Query& query, uint64_t rows) {
  return rows * (WholesOfARow(query) + RealsOfARow(query)) * sizeof(uint64_t);
}

uint64_t RowColumns::ReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max) {
  return rows * (WholesOfARow(query) * wire::VarintSize(row_samples_max) +
                 RealsOfARow(query) * sizeof(double));
}

absl::Status RowColumns::Append(const Query& query, const Plan& plan,
                                absl::Span<const uint64_t> counters, uint64_t its_samples,
                                const Statistics& statistics) {
  const uint64_t counted = std::reduce(counters.begin(), counters.end(), uint64_t{0});
  if (counted != its_samples) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("row ", row_count, ": the counts add up to ", counted,
                                  " samples, but it has ", its_samples, "; the answer is withheld"),
                     {.reason = "COUNT_MISMATCH", .limit = its_samples});
  }
  ++row_count;
  bin_count = plan.bin_count();
  Histogram histogram;
  internal::FoldCounters(plan, counters, histogram);
  if (!query.omit_counts) {
    const absl::Span<const uint64_t> bins =
        plan.counts_bins() ? counters.first(bin_count) : absl::MakeConstSpan(histogram.counts);
    counts.insert(counts.end(), bins.begin(), bins.end());
  }
  samples.push_back(its_samples);
  below.push_back(histogram.below);
  above.push_back(histogram.above);
  ignored.push_back(histogram.ignored);
  nan.push_back(histogram.nan);
  if (query.range_of_row) {
    lower.push_back(plan.binning().edge(0));
    upper.push_back(plan.binning().edge(bin_count));
  }
  if (!query.statistics) return absl::OkStatus();
  for (size_t i = 0; i < kStatistics; ++i) {
    const auto& [answer, value] = kStatisticFields[i];
    if (query.wants(answer)) (this->*kReal[i]).push_back((statistics.*value).value_or(kNone));
  }
  for (size_t i = 0; i < query.quantiles.size(); ++i) {
    quantiles.push_back(i < statistics.quantiles.size() ? statistics.quantiles[i] : kNone);
  }
  return absl::OkStatus();
}

absl::Status RowColumns::Append(const Query& query, const Tally& tally) {
  return Append(query, tally.plan(), tally.counters(), tally.samples(),
                query.statistics ? tally.FinishStatistics(query.quantiles) : Statistics());
}

uint64_t CountersOfARow(const Query& query) {
  const uint64_t bins = query.binning.bin_count();
  if (query.sample_type == SampleType::kU8) return kByteValues + bins;
  return kByteValues + 2 * uint64_t{internal::SlotCount(static_cast<uint32_t>(bins))} +
         query.pattern_counters();
}

Statistics StatisticsOfRow(const Query& query, const Plan& plan,
                           absl::Span<const uint64_t> counters,
                           std::span<const std::byte> samples) {
  if (!query.statistics) return {};
  Histogram histogram;
  if (!plan.counts_values()) {
    internal::FoldCounters(plan, counters, histogram);
    histogram.counts.assign(counters.begin(), counters.begin() + plan.bin_count());
  }
  const Fragment fragment = FragmentOf(samples);
  return StatisticsOfPayload(plan, {&fragment, 1}, counters, histogram, query.needs_order(),
                             query.quantiles);
}

}  // namespace histogram::server
