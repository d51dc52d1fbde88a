// Typed samples as they lie in memory, and as they are compared, on the device.
//
// Plain data and functions without state. Included by .cu files only.
#ifndef HISTOGRAM_CUDA_KERNELS_TYPED_SAMPLES_CUH_
#define HISTOGRAM_CUDA_KERNELS_TYPED_SAMPLES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/typed.h"
#include "kernels/sample.h"

namespace histogram::cuda {

// A sample (kernels/sample.h) on the device.
template <typename Sample>
struct OnDevice {
  using Bits = typename Sample::Bits;
  using Compare = typename Sample::Compare;
  __device__ static Compare Widen(Bits bits) {
    if constexpr (std::is_same_v<Sample, internal::HalfSample>) {
      return __half2float(__ushort_as_half(bits));
    } else if constexpr (std::is_same_v<Sample, internal::BfloatSample>) {
      return __uint_as_float(uint32_t{bits} << 16);
    } else {
      return static_cast<Compare>(bits);
    }
  }
};

// Calls visit(S(), typed) with the sample of the type, and its bins.
template <typename Visit>
absl::Status VisitSamples(SampleType type, const AnyTypedBins& bins, const Visit& visit) {
  return internal::VisitSample(type, [&]<typename Sample>(Sample) {
    using S = OnDevice<Sample>;
    return visit(S(), *std::get_if<TypedBins<typename S::Compare>>(&bins));
  });
}

// How many samples lie before the first aligned vector.
template <typename Bits>
__device__ inline uint32_t SamplesToVector(const Bits* samples) {
  return static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(samples)) % 16 / sizeof(Bits);
}

// Words of a table whose numbers are multiples of 32 lie in different banks. Its own inverse.
__device__ inline uint32_t Permuted(uint32_t slot) { return slot ^ ((slot >> 5) & 31); }

// Calls add(Bits) for the samples of a vector.
template <typename Bits, typename Add>
__device__ inline void ForVector(const uint4& vector, const Add& add) {
  Bits bits[16 / sizeof(Bits)];
  memcpy(bits, &vector, sizeof(bits));
#pragma unroll
  for (const Bits one : bits) add(one);
}

// Calls add_vector(uint4) and add_one(Bits, its index) until `stride` threads together have seen
// each sample once; this one is number `i` of them. Each has kLoads vectors in flight, which
// load(address) reads. REQUIRES: `samples` is aligned to a sample; stride >= 32.
template <uint32_t kLoads, typename Bits, typename Load, typename Vector, typename One>
__device__ inline void ForSamplesOf(const Bits* samples, uint64_t count, uint64_t i,
                                    uint64_t stride, const Load& load, const Vector& add_vector,
                                    const One& add_one) {
  constexpr uint32_t kSize = sizeof(Bits);
  constexpr uint32_t kSamples = 16 / kSize;
  const uint64_t head = min(uint64_t{SamplesToVector(samples)}, count);
  const uint64_t vectors = (count - head) / kSamples;
  const uint64_t tail = count - head - vectors * kSamples;
  const auto* const vector = reinterpret_cast<const uint4*>(samples + head);
  const uint64_t thread = i;
  for (; i + (kLoads - 1) * stride < vectors; i += kLoads * stride) {
    uint4 loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) loaded[j] = load(vector + i + j * stride);
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) add_vector(loaded[j]);
  }
#pragma unroll 1
  for (; i < vectors; i += stride) add_vector(load(vector + i));
  if (thread < head + tail) {
    const uint64_t at = thread < head ? thread : thread + vectors * kSamples;
    add_one(samples[at], at);
  }
}

// The same by the threads of all blocks together.
template <uint32_t kThreads, uint32_t kLoads, typename Bits, typename Vector, typename One>
__device__ inline void ForSamples(const Bits* samples, uint64_t count, const Vector& add_vector,
                                  const One& add_one) {
  ForSamplesOf<kLoads>(
      samples, count, uint64_t{blockIdx.x} * kThreads + threadIdx.x, uint64_t{gridDim.x} * kThreads,
      [](const uint4* address) { return LoadStreaming(address); }, add_vector, add_one);
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_TYPED_SAMPLES_CUH_
