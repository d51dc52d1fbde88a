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

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

// Behind the bins of a row: samples below the first edge, above the last one, and NaN.
using internal::kOutsideSlots;

// How the bin of a sample is found.
//
// By guess: a multiply-add gives the position less a half, f; its nearest integer k is the bin
// where |f - k| < sure. Elsewhere the bin is k or a neighbour, and one threshold decides. That
// holds because the multiply-add is monotone: GuessOf (typed_plan.h) looks at both ends of each
// bin.
//
// By key: the order-preserving key of the sample names a cell, and the cell the least and the
// greatest bin that its samples can be in; a search between them decides. `sure` is 0 then.
template <typename C>
struct TypedBins {
  using Guess = std::conditional_t<sizeof(C) == 8, double, float>;

  C lower = {}, upper = {};
  bool none = false, all_below = false;  // no sample is in any bin; every one is below
  uint32_t bins = 0;                     // of the row
  uint32_t reached = 0;                  // bins that have a threshold; no sample is in a later one
  Guess scale = 0, offset = 0, sure = 0;
  const C* thresholds = nullptr;         // device memory, `reached` of them
  const uint32_t* candidates = nullptr;  // device memory, cells + 1
  uint32_t cell_shift = 0;
};

// The position of `x` less a half, times the bins: monotone in x on [lower, upper], and the same on
// host and device. An integer is taken from `lower` first, which is exact.
template <typename C>
__host__ __device__ inline typename TypedBins<C>::Guess Position(
    C x, C lower, typename TypedBins<C>::Guess scale, typename TypedBins<C>::Guess offset) {
  using Guess = typename TypedBins<C>::Guess;
  Guess at;
  if constexpr (std::is_floating_point_v<C>) {
    at = x;
  } else {
    using Bits = std::make_unsigned_t<C>;
    at = static_cast<Guess>(static_cast<Bits>(static_cast<Bits>(x) - static_cast<Bits>(lower)));
  }
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(Guess) == 8) {
    return __fma_rn(at, scale, offset);
  } else {
    return __fmaf_rn(at, scale, offset);
  }
#else
  return std::fma(at, scale, offset);
#endif
}

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
