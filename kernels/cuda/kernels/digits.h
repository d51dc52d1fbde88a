// The samples at given ranks, on a device. Exact quantiles are made of them.
//
// A sample's bits are read digit by digit, from the highest. A round counts the samples by one
// digit: the first round all of them, a later one those that begin as a sample at some rank does.
// After each round the digit of each rank is known, and after the last one the sample.
//
// Plain data and functions without state; thread-safe.
#ifndef HISTOGRAM_CUDA_KERNELS_DIGITS_H_
#define HISTOGRAM_CUDA_KERNELS_DIGITS_H_

#include <cuda_runtime_api.h>
#include <histogram/sample_type.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// Of a search. Each rank may need a table of its own in shared memory; not measured apart.
inline constexpr uint32_t kRanksMax = 16;

// All memory is the caller's and stays valid until the search is done.
struct DigitSearch {
  SampleType type = SampleType::kF32;
  const void* samples = nullptr;  // device memory, aligned to the sample
  uint64_t count = 0;
  uint64_t ranks[kRanksMax] = {};  // ascending, each less than count
  uint32_t rank_count = 0;
  void* workspace = nullptr;  // device memory, kDigitWorkspaceBytes; zero between searches
  // Device-visible. The bits of the sample at each rank, 0.0 for -0.0; NaN is the greatest sample.
  uint64_t* found = nullptr;
  uint64_t* nans = nullptr;  // device-visible: samples that are NaN
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};

// Queues the search on its stream. REQUIRES: count > 0 and rank_count > 0.
absl::Status EnqueueDigitSearch(const DigitSearch& search);

extern const uint64_t kDigitWorkspaceBytes;

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_DIGITS_H_
