// Counting typed samples on a device: what a plan looks like there, and the launch that counts.
//
// A sample is compared in a wider type, C: float for f16, bf16 and f32, uint32_t and int32_t for
// integers of up to 32 bits, else the type itself. Bin i holds the samples in
// [thresholds[i], thresholds[i+1]), the last one those up to `upper`.
//
// Includes CUDA's headers. Plain data and functions without state; thread-safe.
#ifndef HISTOGRAM_CUDA_KERNELS_TYPED_H_
#define HISTOGRAM_CUDA_KERNELS_TYPED_H_

#include <cuda_runtime_api.h>
#include <histogram/sample_type.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

// Behind the bins of a row: samples below the first edge, above the last one, and NaN.
using internal::kOutsideSlots;

// A plan's bins as kernels get them: internal::Bins with its tables in device memory. A device
// finds a bin as the processor does, with the same guess in double, so that one proof is of both;
// where the guess is not usable, by the cells.
template <typename C>
struct TypedBins {
  C lower = {}, upper = {};
  bool none = false, all_below = false;  // no sample is in any bin; every one is below
  uint32_t bins = 0;                     // of the row
  uint32_t reached = 0;                  // bins that have a threshold; no sample is in a later one
  internal::Guess guess;
  // With a slope of its own an integer needs no double: its bin is the high word of
  // (x - lower) * slope + intercept, proven for every sample (typed_plan.cc). 0: it was not.
  uint32_t slope = 0;
  uint64_t intercept = 0;
  // A position is taken with so many bits behind the point: as many as fit beside a bin's number.
  uint32_t fraction_bits = 0;
  const C* thresholds = nullptr;         // device memory, `reached` of them
  const uint32_t* candidates = nullptr;  // device memory, cells + 1; null where the guess is usable
  uint32_t cell_shift = 0;
};

// One launch, or as many as the bins need. All memory is the caller's and stays valid until the
// launch is done.
struct TypedLaunch {
  SampleType type = SampleType::kF32;
  const void* samples = nullptr;  // device memory, aligned to the sample
  uint64_t count = 0;
  unsigned long long* counts = nullptr;  // device memory, bins + kOutsideSlots; added to
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};

// Queues the count on launch.stream. REQUIRES: C is the type in which launch.type is compared.
// Defined for float, double and the integers of 32 and 64 bits.
template <typename C>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<C>& bins);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_TYPED_H_
