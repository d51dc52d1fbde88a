// The state of one request, free of gRPC types: from a parsed spec to a checked answer.
//
// codec.h makes the Plan of a spec, admit.h leads a message to its job and the counted job to its
// Answer, encode.h writes that.
#ifndef HISTOGRAM_SERVER_REQUEST_CALL_H_
#define HISTOGRAM_SERVER_REQUEST_CALL_H_

#include <histogram/binning.h>
#include <histogram/statistics.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/base/observer.h"
#include "server/batching/batcher.h"
#include "server/batching/job.h"

namespace histogram::server {

// A validated Spec: what to count and what to answer. Immutable; shared between requests.
struct Plan {
  Binning binning = Binning::Identity();
  bool statistics = false;  // also set by quantiles
  std::vector<double> quantiles;
  bool edges = false;
  bool omit_counts = false;
  uint64_t reply_bytes = 0;  // upper bound of the encoded reply, for admission
};

struct Receipt {
  BatchReport batch;
  uint64_t queue_ns = 0;
  uint64_t total_ns = 0;
};

struct Answer {
  Histogram histogram;  // its counts are empty where `values` is set
  // Where every value has a bin of its own, the counts stay where they were counted, and no copy is
  // made: this points there, and must not be used after they are gone.
  const ValueCounts* values = nullptr;
  std::optional<Statistics> statistics;
  std::vector<double> edges;
  Receipt receipt;

  absl::Span<const uint64_t> counts() const {
    return values != nullptr ? absl::MakeConstSpan(*values) : absl::MakeConstSpan(histogram.counts);
  }
};

// The answer to `plan` from the counts of the payload's values. INTERNAL (reason COUNT_MISMATCH)
// when counted + below + above + ignored differs from `samples`; such an answer must never be sent.
// The answer may point at `values`.
absl::Status MakeAnswer(const Plan& plan, const ValueCounts& values, uint64_t samples,
                        Answer& answer);

// Recounts a fraction of the payloads with another kernel (promise 1). Thread-safe.
class Verifier {
 public:
  // REQUIRES: 0 <= fraction <= 1.
  explicit Verifier(double fraction);
  // INTERNAL (reason COUNT_MISMATCH) if this payload was picked and its recount differs.
  absl::Status Check(absl::Span<const Fragment> fragments, const ValueCounts& counts);

 private:
  const uint64_t threshold_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_CALL_H_
