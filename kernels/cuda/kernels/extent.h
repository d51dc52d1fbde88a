// The least and the greatest sample of device memory. Functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_H_

#include <cuda_runtime_api.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

// Of samples as they are compared (plan_data.h), an integer that orders as they do. NaN has the
// greatest, and -0.0 that of 0.0.
template <typename C>
__host__ __device__ inline internal::KeyBits<C> ExtentKey(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    // NaN. NOLINTNEXTLINE(misc-redundant-expression)
    if (!(x == x)) return std::numeric_limits<internal::KeyBits<C>>::max();
    x += C{0};
  }
  return internal::KeyOf(x);
}

// The value of a key: NaN for NaN, for integers of 64 bits the nearest double.
double ValueOfExtentKey(uint64_t key, SampleType type);

// What a launch leaves in the host's memory.
struct Extent {
  uint64_t least = 0, greatest = 0;  // keys
};

// All memory is the caller's and stays valid until the launch is done.
struct ExtentLaunch {
  SampleType type = SampleType::kF32;
  const void* samples = nullptr;  // device memory, aligned to the sample
  uint64_t count = 0;             // > 0
  uint64_t* words = nullptr;      // device memory, kExtentWords; zero between launches
  Extent* extent = nullptr;       // mapped host memory
  uint32_t* flag = nullptr;       // mapped host memory; gets `value` when the extent is there
  uint32_t value = 0;
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};
inline constexpr uint32_t kExtentWords = 3;

absl::Status EnqueueExtent(const ExtentLaunch& launch);

// As FindExtent, without `negative_zero`; where a sample is not finite, only `finite` is set.
histogram::Extent ToExtent(const Extent& keys, SampleType type);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_H_
