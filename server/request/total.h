// The sum of an Accumulate's chunks, and the answer to all of them. Not thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_TOTAL_H_
#define HISTOGRAM_SERVER_REQUEST_TOTAL_H_

#include <histogram/tally.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/batching/job.h"
#include "server/request/answer.h"
#include "server/request/row_columns.h"

namespace histogram::server {

// Moves the counts out of a chunk that was counted for `query`: to a tally, or to one a channel.
// Reads the chunk's payload if the query asks for statistics.
std::vector<Tally> TakeTallies(const Query& query, Job& chunk);

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

#endif  // HISTOGRAM_SERVER_REQUEST_TOTAL_H_
