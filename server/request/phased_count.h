// Counts a payload in phases: in rows, in bins over the range of its samples or of those of each
// row, or by a plan whose tables are made first.
#ifndef HISTOGRAM_SERVER_REQUEST_PHASED_COUNT_H_
#define HISTOGRAM_SERVER_REQUEST_PHASED_COUNT_H_

#include <histogram/tally.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "histogram/v1/histogram.pb.h"
#include "kernels/phases.h"
#include "server/request/query.h"

namespace histogram::server {

// Appends a row: the plan's counters of its samples, and its statistics if the query asks for them.
// A statistic without a value is NaN. INTERNAL (reason COUNT_MISMATCH) if the counters do not add
// up to `its_samples`.
absl::Status AppendRow(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                       uint64_t its_samples, const Statistics& statistics, v1::RowAnswers& rows);
// The same of a row that was counted in parts.
absl::Status AppendRow(const Query& query, const Tally& tally, v1::RowAnswers& rows);

// A backend's thread executes it. Then the request's call reads the outcome.
class PhasedCount final : public Phases {
 public:
  // `adds_up`: the payload is a part of a longer one, and each row is a channel. Then rows() is
  // empty, and the caller merges those of TakeChannels. `makes_tables`: those of the query's plan
  // are made first.
  PhasedCount(std::shared_ptr<const Query> query, bool adds_up, bool makes_tables)
      : asked_(std::move(query)), query_(asked_), adds_up_(adds_up), makes_tables_(makes_tables) {}

  std::shared_ptr<Phases> Anew() const override {
    return std::make_shared<PhasedCount>(asked_, adds_up_, makes_tables_);
  }
  PhaseLimits needs() const override { return NeedsOf(*asked_); }
  std::optional<Phase> Next(std::span<const Fragment> payload) override;
  void Found(const std::optional<Extent>& extent) override { extent_ = extent; }
  std::optional<Plan> PlanOver(uint64_t row, const std::optional<Extent>& extent,
                               std::span<const std::byte> samples) override;
  void Counted(uint64_t row, std::span<const uint64_t> counters,
               std::span<const std::byte> samples) override;

  // --- The outcome.
  // INVALID_ARGUMENT (reason NOT_FINITE, BAD_BINNING), or INTERNAL (reason COUNT_MISMATCH).
  absl::Status status() const;
  // The query; with range_of_data it has the range of the samples.
  const Query& query() const { return *query_; }
  const v1::RowAnswers& rows() const { return rows_; }  // if the query has rows
  // The plan that counted. REQUIRES: status() is OK; rows have no ranges of their own.
  const Plan& plan() const { return *plan_; }
  const std::vector<uint64_t>& counters() const { return counters_; }  // if it has none
  // Moves the counts out: those of a channel each, or the counters.
  std::vector<Tally> TakeChannels() { return std::move(channels_); }
  std::vector<uint64_t> TakeCounters() { return std::move(counters_); }
  // Recounts by plain loops: INTERNAL (reason COUNT_MISMATCH) if the counts differ.
  absl::Status Recount(absl::Span<const Fragment> payload) const;

 private:
  enum class Step : uint8_t { kBegin, kRange, kCount, kDone };

  // The phase that counts.
  Phase Count();
  absl::Status SetRange(std::span<const Fragment> payload);
  Plan PlanOfRow(const Binning& binning, std::span<const std::byte> samples) const;
  // Whether the answers of a row equal those of these counters.
  bool SameAnswers(const Plan& plan, absl::Span<const uint64_t> counters,
                   std::span<const std::byte> samples, uint64_t row) const;

  const std::shared_ptr<const Query> asked_;
  std::shared_ptr<const Query> query_;
  const bool adds_up_, makes_tables_;
  Step step_ = Step::kBegin;
  absl::Status status_;
  std::optional<Extent> extent_;
  std::optional<Plan> plan_;  // of the phase that counts, or of the row that it counts
  v1::RowAnswers rows_;
  std::vector<Tally> channels_;
  std::vector<uint64_t> counters_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_PHASED_COUNT_H_
