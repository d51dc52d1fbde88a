// The answers of all rows of a payload as columns, as they are sent.
#ifndef HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_
#define HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_

#include <histogram/sample_statistics.h>
#include <histogram/tally.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/request/query.h"

namespace histogram::server {

// Entry r belongs to row r (histogram.v1.RowAnswers).
struct RowColumns {
  uint64_t row_count = 0;
  uint32_t bin_count = 0;
  std::vector<uint64_t> counts;  // row by row; empty if the query omits them
  std::vector<uint64_t> samples, below, above, ignored, nan;
  // Statistics. NaN if a row has no value; empty if the query does not ask for them.
  std::vector<double> minimum, maximum, mean, standard_deviation, median, mode, entropy_bits,
      otsu_threshold, quantiles;
  std::vector<double> lower, upper;  // the range of each row, if each has its own

  static constexpr std::vector<uint64_t> RowColumns::*kWhole[] = {
      &RowColumns::counts, &RowColumns::samples, &RowColumns::below,
      &RowColumns::above,  &RowColumns::ignored, &RowColumns::nan};
  // In the order of kStatisticFields, then the quantiles and the ranges.
  static constexpr std::vector<double> RowColumns::*kReal[] = {
      &RowColumns::minimum,      &RowColumns::maximum,
      &RowColumns::mean,         &RowColumns::standard_deviation,
      &RowColumns::median,       &RowColumns::mode,
      &RowColumns::entropy_bits, &RowColumns::otsu_threshold,
      &RowColumns::quantiles,    &RowColumns::lower,
      &RowColumns::upper};

  // The memory of `rows` rows, in bytes.
  static uint64_t Bytes(const Query& query, uint64_t rows);
  // An upper bound of the encoded reply for `rows` rows of up to `row_samples_max` samples.
  static uint64_t ReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max);

  // Appends a row: the plan's counters of its samples, and its statistics if the query asks for
  // them. INTERNAL (reason COUNT_MISMATCH) if the counters do not add up to `its_samples`.
  absl::Status Append(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                      uint64_t its_samples, const Statistics& statistics);
  // The same of a row that was counted in parts.
  absl::Status Append(const Query& query, const Tally& tally);
};

// The number of counters that a row keeps, for limits.
uint64_t CountersOfARow(const Query& query);

// The statistics that the query asks for, of a row that is at hand as a whole.
Statistics StatisticsOfRow(const Query& query, const Plan& plan,
                           absl::Span<const uint64_t> counters, std::span<const std::byte> samples);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_
