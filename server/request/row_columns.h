// The answers of all rows of a payload as columns, as they are sent.
#ifndef HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_
#define HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_

#include <histogram/sample_statistics.h>
#include <histogram/tally.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "histogram/v1/histogram.pb.h"
#include "server/request/query.h"

namespace histogram::server {

// The memory of the columns of `rows` rows, in bytes.
uint64_t RowBytes(const Query& query, uint64_t rows);
// An upper bound of the encoded columns of `rows` rows of up to `row_samples_max` samples.
uint64_t RowReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max);

// Appends a row: the plan's counters of its samples, and its statistics if the query asks for them.
// A statistic without a value is NaN. INTERNAL (reason COUNT_MISMATCH) if the counters do not add
// up to `its_samples`.
absl::Status AppendRow(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                       uint64_t its_samples, const Statistics& statistics, v1::RowAnswers& rows);
// The same of a row that was counted in parts.
absl::Status AppendRow(const Query& query, const Tally& tally, v1::RowAnswers& rows);

// The number of counters that a row keeps, for limits.
uint64_t CountersOfARow(const Query& query);

// The statistics that the query asks for, of a row that is at hand as a whole.
Statistics StatisticsOfRow(const Query& query, const Plan& plan,
                           absl::Span<const uint64_t> counters, std::span<const std::byte> samples);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ROW_COLUMNS_H_
