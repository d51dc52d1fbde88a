// From counted jobs to the checked answer: of one job, or of the sum of an Accumulate's chunks.
//
// query.h makes the Query of a spec. admit.h makes a message's job. encode.h writes the Answer.
#ifndef HISTOGRAM_SERVER_REQUEST_ANSWER_H_
#define HISTOGRAM_SERVER_REQUEST_ANSWER_H_

#include <histogram/binning.h>
#include <histogram/statistics.h>
#include <histogram/tally.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "histogram/v1/histogram.pb.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/batching/job.h"
#include "server/request/query.h"

namespace histogram::server {

struct Receipt {
  BatchReport batch;
  uint64_t queue_ns = 0;
  uint64_t total_ns = 0;
};

struct Answer {
  Histogram histogram;  // without counts if `in_place` is set
  // If nothing is folded, this points at the job's counters instead of a copy. It is valid as long
  // as they are.
  absl::Span<const uint64_t> in_place;
  std::optional<Statistics> statistics;
  std::vector<double> edges;
  // Sparse answers only: counts[k] is the count of bin bins[k].
  std::vector<uint32_t> bins;
  // With rows: points into the job's phases or the Total. Then the histogram has only `samples`.
  const v1::RowAnswers* rows = nullptr;
  Receipt receipt;

  absl::Span<const uint64_t> counts() const {
    return in_place.empty() ? absl::MakeConstSpan(histogram.counts) : in_place;
  }
};

// All statistics of the samples that a histogram has counted.
using StatisticsOf = absl::FunctionRef<Statistics(const Histogram& histogram)>;
// The answer to `query` from the counters of its plan. INTERNAL (reason COUNT_MISMATCH) if counts +
// below + above + ignored + nan differ from `samples`: such an answer must not be sent. The answer
// may point at `counters`. Calls `statistics_of` if the query asks for statistics.
absl::Status MakeAnswer(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                        uint64_t samples, StatisticsOf statistics_of, Answer& answer);

// The statistics of one number, in the order of histogram.v1.Statistics, and what asks for each.
struct StatisticField {
  Wanted wanted;
  std::optional<double> Statistics::*value;
};
inline constexpr StatisticField kStatisticFields[] = {
    {Wanted::kMinimumMaximum, &Statistics::minimum},
    {Wanted::kMinimumMaximum, &Statistics::maximum},
    {Wanted::kMeanDeviation, &Statistics::mean},
    {Wanted::kMeanDeviation, &Statistics::standard_deviation},
    {Wanted::kMedian, &Statistics::median},
    {Wanted::kMode, &Statistics::mode},
    {Wanted::kEntropy, &Statistics::entropy_bits},
    {Wanted::kOtsu, &Statistics::otsu_threshold}};

// Recounts a fraction of the payloads by other code, to detect wrong counts. Thread-safe.
class Verifier {
 public:
  // REQUIRES: 0 <= fraction <= 1.
  explicit Verifier(double fraction) : fraction_(fraction) {}
  // INTERNAL (reason COUNT_MISMATCH) if the job is picked and its recount differs.
  absl::Status Check(const Job& job);

 private:
  const double fraction_;
  std::atomic<uint64_t> sequence_{0};
};

// Recounts the job if the verifier picks it. INTERNAL (reason COUNT_MISMATCH) if the counts differ,
// which the observer is told. Thread-safe.
absl::Status Recount(Verifier& verifier, Observer& observer, const Job& job);

// Makes the checked answer of a counted job: folds, checks the sum, and recounts picked jobs. The
// answer may point at the job's counts. Sets `finished_at` if it returns OK. Thread-safe.
absl::Status FinishAnswer(Verifier& verifier, Clock& clock, Observer& observer, const Query& query,
                          const Job& job, Answer& answer, TimeNs& finished_at);

// Moves the counts out of a chunk that was counted for `query`: to a tally, or to one a channel.
// Reads the chunk's payload if the query asks for statistics.
std::vector<Tally> TakeTallies(const Query& query, Job& chunk);

// The sum of an Accumulate's chunks. Not thread-safe.
class Total {
 public:
  // Adds a chunk that was counted for `query`. `tallies`: those of the chunk.
  void Add(const Query& query, const Job& chunk, const std::vector<Tally>& tallies);
  // The answer to all chunks so far. It points into this object. INTERNAL (reason COUNT_MISMATCH)
  // if the counts do not add up to the samples: such an answer must not be sent.
  absl::Status Finish(const Query& query, Answer& answer);

  uint64_t bytes() const { return bytes_; }
  uint64_t chunks() const { return chunks_; }

 private:
  uint64_t bytes_ = 0, chunks_ = 0;
  std::vector<Tally> tallies_;  // one, or one a channel; empty before the first chunk
  v1::RowAnswers rows_;         // of the last Finish
  Receipt receipt_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ANSWER_H_
