// Counts a payload as a whole: in rows, in bins over the range of its samples, or by a plan that is
// made first.
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
#include "kernels/batch.h"
#include "server/request/query.h"

namespace histogram::server {

// The counts of one row. Parts of a row add up. Not thread-safe.
class RowCounter {
 public:
  // Counts by the query's plan as it is. REQUIRES: not query.range_of_data; the query outlives
  // this.
  explicit RowCounter(const Query& query);

  // The number of counters of one RowCounter, for limits.
  static uint64_t Counters(const Query& query);

  // Adds samples. `plainly`: by plain loops that share no code with the kernels. REQUIRES: a whole
  // number of samples.
  void Add(std::span<const std::byte> samples, bool plainly = false);
  void Merge(const RowCounter& more);
  // Whether both have the same counts.
  bool CountedAs(const RowCounter& other) const;
  // The counts. INTERNAL (reason COUNT_MISMATCH) if they do not add up to the samples added.
  absl::Status Finish(Histogram& histogram) const;
  // All statistics, but for types of 32 and 64 bits no median and quantiles. REQUIRES: the query
  // asks for statistics; `histogram` is that of Finish.
  Statistics FinishStatistics(const Histogram& histogram) const;
  void Clear();

 private:
  void AddSlots(const std::vector<uint64_t>& slots);

  const Query* query_;
  std::optional<Plan> plan_;  // of other types than bytes
  uint64_t samples_ = 0;
  ValueCounts values_{};                  // of bytes
  std::vector<uint64_t> slots_;           // of other types
  std::optional<SampleStatistics> seen_;  // of other types, if the query asks for statistics
};

// The answers of all rows as columns: entry r belongs to row r (histogram.v1.RowAnswers).
struct RowColumns {
  uint64_t row_count = 0;
  uint32_t bin_count = 0;
  std::vector<uint64_t> counts;  // row by row; empty if the query omits them
  std::vector<uint64_t> samples, below, above, ignored, nan;
  // Statistics. NaN if a row has no value; empty if the query does not ask for them.
  std::vector<double> minimum, maximum, mean, standard_deviation, median, mode, entropy_bits,
      otsu_threshold, quantiles;

  static constexpr std::vector<uint64_t> RowColumns::*kWhole[] = {
      &RowColumns::counts, &RowColumns::samples, &RowColumns::below,
      &RowColumns::above,  &RowColumns::ignored, &RowColumns::nan};
  // In the order of kStatisticFields, then the quantiles.
  static constexpr std::vector<double> RowColumns::*kReal[] = {
      &RowColumns::minimum,      &RowColumns::maximum,
      &RowColumns::mean,         &RowColumns::standard_deviation,
      &RowColumns::median,       &RowColumns::mode,
      &RowColumns::entropy_bits, &RowColumns::otsu_threshold,
      &RowColumns::quantiles};

  // The memory of `rows` rows, in bytes.
  static uint64_t Bytes(const Query& query, uint64_t rows);
  // Appends a row.
  void Append(const Query& query, const Histogram& histogram, const Statistics& statistics);
};

// The columns of summed rows.
absl::Status ColumnsOf(const Query& query, absl::Span<const RowCounter> counters,
                       RowColumns& columns);

// An upper bound of the encoded reply for `rows` rows of up to `row_samples_max` samples.
uint64_t RowReplyBytes(const Query& query, uint64_t rows, uint64_t row_samples_max);

// A backend's thread calls Run. Then the request's call reads the outcome.
class WholeCount final : public PayloadWork {
 public:
  // `adds_up`: the payload is a part of a longer one, and each row is a channel. Then rows() is
  // empty, and the caller merges counters(). `makes_tables`: Run makes those of the query's plan
  // first.
  WholeCount(std::shared_ptr<const Query> query, bool adds_up, bool makes_tables)
      : query_(std::move(query)), adds_up_(adds_up), makes_tables_(makes_tables) {}

  void Run(absl::Span<const Fragment> payload) override;
  std::string kernel() const override;

  // --- After Run.
  // INVALID_ARGUMENT (reason NOT_FINITE, BAD_BINNING), or INTERNAL (reason COUNT_MISMATCH).
  const absl::Status& status() const { return status_; }
  // The query; with range_of_data it has the range of the samples.
  const Query& query() const { return *query_; }
  const RowColumns& rows() const { return rows_; }             // if the query has rows
  absl::Span<const uint64_t> slots() const { return slots_; }  // if it has none
  const std::vector<RowCounter>& counters() const { return counters_; }
  // Recounts by plain loops: INTERNAL (reason COUNT_MISMATCH) if the counts differ.
  absl::Status Recount(absl::Span<const Fragment> payload) const;

 private:
  absl::Status FindRange(std::span<const std::byte> samples);
  absl::Status CountRows(std::span<const std::byte> samples);
  // Whether the answers of a row equal those that `counter` gives.
  bool SameAnswers(const RowCounter& counter, uint64_t row) const;

  std::shared_ptr<const Query> query_;
  const bool adds_up_, makes_tables_;
  absl::Status status_ = absl::UnknownError("not counted");
  RowColumns rows_;
  std::vector<RowCounter> counters_;
  std::vector<uint64_t> slots_;
  uint64_t row_bytes_max_ = 0;  // of the rows
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_WHOLE_COUNT_H_
