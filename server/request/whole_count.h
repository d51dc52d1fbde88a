// Counting a payload as a whole: in rows, into bins over the range of its own samples, or by a plan
// that is made first.
#ifndef HISTOGRAM_SERVER_REQUEST_WHOLE_COUNT_H_
#define HISTOGRAM_SERVER_REQUEST_WHOLE_COUNT_H_

#include <histogram/sample_statistics.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/payload_work.h"
#include "server/request/query.h"

namespace histogram::server {

// What was counted of one row. Adds up over parts of the row. Not thread-safe.
class RowCounter {
 public:
  // Makes the query's plan, unless it is made. The query has no range_of_data.
  explicit RowCounter(const Query& query);

  // How many counters one has, for limits.
  static uint64_t Counters(const Query& query);

  // A whole number of samples.
  void Add(std::span<const std::byte> samples);
  // The same by plain loops, which share no code with the kernels.
  void AddPlainly(std::span<const std::byte> samples);
  void Merge(const RowCounter& more);
  // Whether both have the same counts.
  bool CountedAs(const RowCounter& other) const;
  // The counts; their sum is checked against what was added: INTERNAL (reason COUNT_MISMATCH).
  absl::Status Finish(Histogram& histogram) const;
  // All but the order of samples of 32 and 64 bits. REQUIRES: the query asks for statistics;
  // `histogram` is that of Finish.
  Statistics FinishStatistics(const Histogram& histogram) const;
  void Clear();

 private:
  void AddSlots(const std::vector<uint64_t>& slots);

  const Query* query_;
  uint64_t samples_ = 0;
  ValueCounts values_{};                   // of bytes
  std::vector<uint64_t> slots_, scratch_;  // of other types
  std::optional<SampleStatistics> seen_;   // likewise, where statistics are asked for
};

// The answers to all rows, as columns: entry r is of row r (histogram.v1.RowAnswers).
struct RowColumns {
  uint64_t row_count = 0;
  uint32_t bin_count = 0;
  std::vector<uint64_t> counts;  // row by row; empty where they are left out
  std::vector<uint64_t> samples, below, above, ignored, nan;
  // Of statistics, NaN where a row has none; empty where they are not asked for.
  std::vector<double> minimum, maximum, mean, standard_deviation, median, mode, entropy_bits,
      otsu_threshold, quantiles;

  static constexpr std::vector<uint64_t> RowColumns::*kWhole[] = {
      &RowColumns::counts, &RowColumns::samples, &RowColumns::below,
      &RowColumns::above,  &RowColumns::ignored, &RowColumns::nan};
  static constexpr std::vector<double> RowColumns::*kReal[] = {
      &RowColumns::minimum,      &RowColumns::maximum,
      &RowColumns::mean,         &RowColumns::standard_deviation,
      &RowColumns::median,       &RowColumns::mode,
      &RowColumns::entropy_bits, &RowColumns::otsu_threshold,
      &RowColumns::quantiles};

  // The memory that `rows` rows take.
  static uint64_t Bytes(const Query& query, uint64_t rows);
  // One more row.
  void Append(const Query& query, const Histogram& histogram, const Statistics& statistics);
};

// The columns of rows that were added up.
absl::Status ColumnsOf(const Query& query, absl::Span<const RowCounter> counters,
                       RowColumns& columns);

// An upper bound of the encoded reply to `rows` rows of up to `row_samples_max` samples.
uint64_t RowReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max);

// A backend's thread calls Run. Afterwards the call reads the outcome.
class WholeCount final : public PayloadWork {
 public:
  // `adds_up`: the payload is a part of a longer one, and each row is a channel. Then rows() stays
  // empty, and the caller merges counters().
  WholeCount(std::shared_ptr<const Query> query, bool adds_up)
      : query_(std::move(query)), adds_up_(adds_up) {}

  void Run(absl::Span<const Fragment> payload) override;
  std::string kernel() const override;

  // --- After Run.
  // INVALID_ARGUMENT (reason NOT_FINITE, BAD_BINNING), or INTERNAL (reason COUNT_MISMATCH).
  const absl::Status& status() const { return status_; }
  // The query, with the plan of the data's range.
  const Query& query() const { return *query_; }
  const RowColumns& rows() const { return rows_; }             // where the query has rows
  absl::Span<const uint64_t> slots() const { return slots_; }  // else
  const std::vector<RowCounter>& counters() const { return counters_; }
  // Counts once more by plain loops: INTERNAL (reason COUNT_MISMATCH) where that differs.
  absl::Status Recount(absl::Span<const Fragment> payload) const;

 private:
  absl::Status FindRange(std::span<const std::byte> samples);
  absl::Status CountRows(std::span<const std::byte> samples);
  // Whether the answers to a row equal those that `counter` gives.
  bool SameAnswers(const RowCounter& counter, uint64_t row) const;

  std::shared_ptr<const Query> query_;
  const bool adds_up_;
  absl::Status status_ = absl::UnknownError("not counted");
  RowColumns rows_;
  std::vector<RowCounter> counters_;
  std::vector<uint64_t> slots_;
  uint64_t row_bytes_max_ = 0;  // of the rows
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_WHOLE_COUNT_H_
