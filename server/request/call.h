// The state of one request, free of gRPC types: from a parsed spec to a checked answer.
//
// query.h makes the Query of a spec, admit.h leads a message to its job and the counted job to its
// Answer, encode.h writes that.
#ifndef HISTOGRAM_SERVER_REQUEST_CALL_H_
#define HISTOGRAM_SERVER_REQUEST_CALL_H_

#include <histogram/binning.h>
#include <histogram/statistics.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/batching/job.h"
#include "server/request/query.h"

namespace histogram::server {

struct RowColumns;

struct Receipt {
  BatchReport batch;
  uint64_t queue_ns = 0;
  uint64_t total_ns = 0;
};

struct Answer {
  Histogram histogram;  // its counts are empty where `in_place` is not
  // Where nothing is folded, the counts stay where they were counted, and no copy is made: this
  // points there, and must not be used after they are gone.
  absl::Span<const uint64_t> in_place;
  std::optional<Statistics> statistics;
  std::vector<double> edges;
  // Of sparse answers: counts[k] is that of bin bins[k].
  std::vector<uint32_t> bins;
  // With rows: of the histogram only the samples are set. Points into the job's work.
  const RowColumns* rows = nullptr;
  Receipt receipt;

  absl::Span<const uint64_t> counts() const {
    return in_place.empty() ? absl::MakeConstSpan(histogram.counts) : in_place;
  }
};

// The answer to `query` from the counts of the payload's values. INTERNAL (reason COUNT_MISMATCH)
// when counted + below + above + ignored differs from `samples`; such an answer must never be sent.
// The answer may point at `values`. REQUIRES: query has no plan.
absl::Status MakeAnswer(const Query& query, const ValueCounts& values, uint64_t samples,
                        Answer& answer);
// The same from the counts of typed samples: the plan's bins, then below, above, NaN. The answer
// points at `slots`, unless it is to have statistics, which are not set here. REQUIRES: query has a
// plan.
absl::Status MakeTypedAnswer(const Query& query, absl::Span<const uint64_t> slots, uint64_t samples,
                             Answer& answer);
// Sets the statistics of an answer that MakeTypedAnswer made of this payload.
void AddTypedStatistics(const Query& query, absl::Span<const Fragment> payload, Answer& answer);

// Leaves out of an answer's statistics what the query does not ask for.
void SelectStatistics(const Query& query, Statistics& statistics);
// Leaves out the counts of empty bins.
void MakeSparse(Answer& answer);

// The payload in one piece: where it lies, if it does, else in `storage`.
std::span<const std::byte> InOnePiece(absl::Span<const Fragment> payload, std::string& storage);

// Recounts a fraction of the payloads with another kernel (promise 1). Thread-safe.
class Verifier {
 public:
  // REQUIRES: 0 <= fraction <= 1.
  explicit Verifier(double fraction);
  // Whether the next payload is to be recounted.
  bool Picks();
  // INTERNAL (reason COUNT_MISMATCH) if this counted job was picked and its recount differs.
  // REQUIRES: job.work is null.
  absl::Status Check(const Query& query, const Job& job);

 private:
  const uint64_t threshold_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_CALL_H_
