// The sum of an Accumulate's chunks, and the answer to all of them. Not thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_TOTAL_H_
#define HISTOGRAM_SERVER_REQUEST_TOTAL_H_

#include <histogram/sample_statistics.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "server/batching/job.h"
#include "server/request/call.h"
#include "server/request/whole_count.h"

namespace histogram::server {

class Total {
 public:
  // Adds a chunk that was counted for `query`. `seen`: set for typed samples if the query asks for
  // statistics.
  void Add(const Query& query, const Job& chunk, std::optional<SampleStatistics> seen);
  // The answer to all chunks so far. It points into this object. INTERNAL (reason COUNT_MISMATCH)
  // if the counts do not add up to the samples: such an answer must not be sent.
  absl::Status Finish(const Query& query, Answer& answer);

  uint64_t bytes() const { return bytes_; }
  uint64_t chunks() const { return chunks_; }

 private:
  absl::Status FinishOne(const Query& query, uint64_t samples, Answer& answer);

  uint64_t bytes_ = 0, chunks_ = 0;
  ValueCounts values_{};                  // of bytes
  std::vector<uint64_t> slots_;           // of typed samples; empty before the first chunk
  std::optional<SampleStatistics> seen_;  // of typed samples
  std::vector<RowCounter> channels_;      // with rows
  RowColumns columns_;                    // with rows; of the last Finish
  Receipt receipt_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_TOTAL_H_
