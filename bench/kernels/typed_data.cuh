// The data of the benchmarks of typed samples, and a plain count of them. Included by .cu files
// only.
#ifndef HISTOGRAM_BENCH_KERNELS_TYPED_DATA_CUH_
#define HISTOGRAM_BENCH_KERNELS_TYPED_DATA_CUH_

#include <cuda_fp16.h>

#include <cstdint>
#include <vector>

#include "bench/kernels/harness.h"
#include "kernels/cuda/plan/typed_plan.h"

namespace histogram::bench {

inline constexpr const char* kDistributions[] = {"uniform", "normal", "constant",  "two",
                                                 "sixteen", "sorted", "multiples", "edges"};

__device__ inline uint32_t Mixed(uint64_t i) {
  uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  return static_cast<uint32_t>((x ^ x >> 27) * 0x94D049BB133111EBU >> 32);
}

// The value of sample i of `count`, as a double.
__device__ inline double Value(int distribution, uint64_t i, uint64_t count, const double* edges,
                               uint32_t bins) {
  const double low = edges[0], high = edges[bins], range = high - low;
  const double share = (Mixed(2 * i) + 0.5) / 4294967296.0;
  switch (distribution) {
    case 0:
      return low + range * share;
    case 1: {
      const double other = (Mixed(2 * i + 1) + 0.5) / 4294967296.0;
      return (low + high) / 2 + range / 8 * sqrt(-2 * log(share)) * cospi(2 * other);
    }
    case 2:
      return low + range * 0.37;
    case 3:
      return low + range * (i % 2 == 0 ? 0.2 : 0.7);
    case 4:
      return low + range * (Mixed(i) % 16 + 0.5) / 16;
    case 5:
      return low + range * (static_cast<double>(i) / static_cast<double>(count));
    case 6: {
      const uint32_t bin = bins < 64 ? 0 : Mixed(i) % (bins / 32) * 32;
      return edges[bin] / 2 + edges[bin + 1] / 2;
    }
    default:
      return edges[Mixed(i) % (bins + 1)];
  }
}

template <typename Bits, bool kFloat>
__device__ Bits ToBits(double value, bool bfloat) {
  if constexpr (sizeof(Bits) == 8) {
    if (kFloat) return static_cast<Bits>(__double_as_longlong(value));
  }
  if constexpr (sizeof(Bits) == 4) {
    if (kFloat) return static_cast<Bits>(__float_as_uint(static_cast<float>(value)));
  }
  if constexpr (sizeof(Bits) == 2) {
    if (kFloat && bfloat) {
      return static_cast<Bits>(__float_as_uint(static_cast<float>(value)) >> 16);
    }
    if (kFloat) return __half_as_ushort(__float2half(static_cast<float>(value)));
  }
  return static_cast<Bits>(static_cast<int64_t>(floor(value)));
}

template <typename Bits, bool kFloat>
__global__ void FillKernel(Bits* samples, uint64_t count, int distribution, const double* edges,
                           uint32_t bins, bool bfloat) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Bits bits = ToBits<Bits, kFloat>(Value(distribution, i, count, edges, bins), bfloat);
    if (distribution == 7) bits = static_cast<Bits>(bits + Mixed(i + 7) % 3 - 1);
    samples[i] = bits;
  }
}

// A plain count: a search among the thresholds, and an atomic in global memory.
template <typename C, typename Bits, bool kFloat>
__global__ void PlainKernel(const Bits* samples, uint64_t count, cuda::TypedBins<C> bins,
                            bool bfloat, unsigned long long* counts) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    C x;
    if constexpr (sizeof(Bits) == 2 && kFloat) {
      x = bfloat ? __uint_as_float(uint32_t{samples[i]} << 16)
                 : __half2float(__ushort_as_half(samples[i]));
    } else if constexpr (kFloat) {
      memcpy(&x, samples + i, sizeof(x));
    } else {
      x = samples[i];
    }
    uint32_t slot = bins.bins + 2;
    if (x < bins.lower) {
      slot = bins.bins;
    } else if (x > bins.upper) {
      slot = bins.bins + 1;
    } else if (x == x) {
      uint32_t low = 0, high = bins.reached;
      while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (x >= bins.thresholds[middle] ? low : high) = middle;
      }
      slot = low;
    }
    atomicAdd(&counts[slot], 1ULL);
  }
}

// Calls visit.template operator()<C, Bits, kFloat>() for a type.
template <typename Visit>
void VisitBits(SampleType type, Visit&& visit) {
  switch (type) {
    case SampleType::kU8:
      return visit.template operator()<uint32_t, uint8_t, false>();
    case SampleType::kI8:
      return visit.template operator()<int32_t, int8_t, false>();
    case SampleType::kU16:
      return visit.template operator()<uint32_t, uint16_t, false>();
    case SampleType::kI16:
      return visit.template operator()<int32_t, int16_t, false>();
    case SampleType::kU32:
      return visit.template operator()<uint32_t, uint32_t, false>();
    case SampleType::kI32:
      return visit.template operator()<int32_t, int32_t, false>();
    case SampleType::kU64:
      return visit.template operator()<uint64_t, uint64_t, false>();
    case SampleType::kI64:
      return visit.template operator()<int64_t, int64_t, false>();
    case SampleType::kF16:
    case SampleType::kBf16:
      return visit.template operator()<float, uint16_t, true>();
    case SampleType::kF32:
      return visit.template operator()<float, uint32_t, true>();
    case SampleType::kF64:
      return visit.template operator()<double, uint64_t, true>();
  }
}

// Fills `bytes` bytes with samples of a distribution.
inline void FillSamples(const Plan& plan, int distribution, uint8_t* samples, uint64_t bytes,
                        cudaStream_t stream) {
  const std::vector<double> edges = plan.binning().ComputeEdges();
  absl::StatusOr<cuda::DeviceBuffer> on_device = cuda::DeviceBuffer::Make(edges.size() * 8);
  Check(on_device.status());
  CheckCuda(cudaMemcpy(on_device->get(), edges.data(), edges.size() * 8, cudaMemcpyHostToDevice),
            "edges");
  VisitBits(plan.type(), [&]<typename C, typename Bits, bool kFloat>() {
    FillKernel<Bits, kFloat><<<1024, 256, 0, stream>>>(
        reinterpret_cast<Bits*>(samples), bytes / sizeof(Bits), distribution,
        on_device->get<double>(), plan.bin_count(), plan.type() == SampleType::kBf16);
  });
  CheckCuda(cudaStreamSynchronize(stream), "fill");
}

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_TYPED_DATA_CUH_
