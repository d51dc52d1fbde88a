// Counting rows of samples into even bins that need no plan: over one range, or each over its own.
//
// Plain data and functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_ROWS_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/typed_rows.h"

namespace histogram::cuda {

// The ends of a row's bins; both are NaN where the row has no bins, and then it is not counted: it
// has no samples, or one that is not finite, or its edges are not distinct (AreDistinct).
struct RowEnds {
  double lower, upper;
};

// All memory is the caller's and stays valid until the launch is done.
struct EvenRowsLaunch {
  RowsLaunch rows;  // of one channel, without `begins`
  // Each row's bins begin at its least and end at its greatest sample; where these are equal, half
  // below and half above them.
  bool own_ranges = false;
  RowEnds* ends = nullptr;      // own ranges: device memory, one a row; overwritten
  uint64_t* extents = nullptr;  // own ranges: device memory, two words a row; holds anything
};

// REQUIRES: EvenBinsFit; the bins are those of MakeEvenBins, for own ranges over any range with the
// arithmetic that they take.
absl::Status EnqueueEvenRows(const EvenRowsLaunch& launch, const AnyTypedBins& bins);

// Queues the rows' counts in u64, one row after the other: its bins, then the samples outside.
absl::Status EnqueueWiden(const uint32_t* counts, const uint32_t* outside, uint64_t rows,
                          uint32_t bins, uint64_t* wide, cudaStream_t stream);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_ROWS_H_
