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

// Columns of one number a row: those of whole numbers but counts, those of statistics, and ranges.
constexpr uint64_t kNumberColumns = 5, kStatistics = std::size(kStatisticFields), kRanges = 2;

// The numbers of a row that are whole, and those that are doubles.
uint64_t WholesOfARow(const Query& query) {
  return kNumberColumns + (query.omit_counts ? 0 : query.binning.bin_count());
}
uint64_t RealsOfARow(const Query& query) {
  const uint64_t statistics = query.statistics ? kStatistics + query.quantiles.size() : 0;
  return statistics + (query.range_of_row ? kRanges : 0);
}

}  // namespace

uint64_t RowBytes(const Query& query, uint64_t rows) {
  return rows * (WholesOfARow(query) + RealsOfARow(query)) * sizeof(uint64_t);
}

uint64_t RowReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max) {
  return rows * (WholesOfARow(query) * wire::VarintSize(row_samples_max) +
                 RealsOfARow(query) * sizeof(double));
}

absl::Status AppendRow(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                       uint64_t its_samples, const Statistics& statistics, v1::RowAnswers& rows) {
  const uint64_t row = rows.row_count();
  const uint64_t counted = std::reduce(counters.begin(), counters.end(), uint64_t{0});
  if (counted != its_samples) {
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("row ", row, ": the counts add up to ", counted,
                                  " samples, but it has ", its_samples, "; the answer is withheld"),
                     {.reason = "COUNT_MISMATCH", .limit = its_samples});
  }
  rows.set_row_count(row + 1);
  rows.set_bin_count(plan.bin_count());
  Histogram histogram;
  internal::FoldCounters(plan, counters, histogram);
  if (!query.omit_counts) {
    const absl::Span<const uint64_t> bins = plan.counts_bins()
                                                ? counters.first(plan.bin_count())
                                                : absl::MakeConstSpan(histogram.counts);
    rows.mutable_counts()->Add(bins.begin(), bins.end());
  }
  rows.add_samples(its_samples);
  const auto add_outside = [row](uint64_t number, google::protobuf::RepeatedField<uint64_t>& to) {
    if (number == 0 && to.empty()) return;  // a column of zeros is not sent
    to.Resize(static_cast<int>(row), 0);
    to.Add(number);
  };
  add_outside(histogram.below, *rows.mutable_below());
  add_outside(histogram.above, *rows.mutable_above());
  add_outside(histogram.ignored, *rows.mutable_ignored());
  add_outside(histogram.nan, *rows.mutable_nan());
  if (query.range_of_row) {
    rows.add_lower(plan.binning().edge(0));
    rows.add_upper(plan.binning().edge(plan.bin_count()));
  }
  if (!query.statistics) return absl::OkStatus();
  google::protobuf::RepeatedField<double>* const columns[kStatistics] = {
      rows.mutable_minimum(),      rows.mutable_maximum(),
      rows.mutable_mean(),         rows.mutable_standard_deviation(),
      rows.mutable_median(),       rows.mutable_mode(),
      rows.mutable_entropy_bits(), rows.mutable_otsu_threshold()};
  for (size_t i = 0; i < kStatistics; ++i) {
    const auto& [answer, value] = kStatisticFields[i];
    if (query.wants(answer)) columns[i]->Add((statistics.*value).value_or(kNone));
  }
  for (size_t i = 0; i < query.quantiles.size(); ++i) {
    rows.add_quantiles(i < statistics.quantiles.size() ? statistics.quantiles[i] : kNone);
  }
  return absl::OkStatus();
}

absl::Status AppendRow(const Query& query, const Tally& tally, v1::RowAnswers& rows) {
  return AppendRow(query, tally.plan(), tally.counters(), tally.samples(),
                   query.statistics ? tally.FinishStatistics(query.quantiles) : Statistics(), rows);
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
