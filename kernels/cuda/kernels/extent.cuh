// The least and the greatest key (extent.h) of the samples that a block's threads have seen.
//
// Functions without state. Included by .cu files only.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/extent.h"

namespace histogram::cuda {

template <typename Key>
struct Extremes {
  // The least by its complement, so that zeros are those of no samples.
  Key most_below = 0, greatest = 0;

  __device__ void Add(Key key) {
    most_below = max(most_below, static_cast<Key>(~key));
    greatest = max(greatest, key);
  }
  __device__ void Add(const Extremes& more) {
    most_below = max(most_below, more.most_below);
    greatest = max(greatest, more.greatest);
  }
};

// Those of all threads of the block, in its first thread. Has a barrier; so must a caller in a
// loop.
template <uint32_t kThreads, typename Key>
__device__ inline Extremes<Key> OfBlock(Extremes<Key> extremes) {
  __shared__ Key of_warps[2][kThreads / 32];
#pragma unroll
  for (uint32_t step = 16; step > 0; step /= 2) {
    extremes.Add(Extremes<Key>{__shfl_xor_sync(kAllThreads, extremes.most_below, step),
                               __shfl_xor_sync(kAllThreads, extremes.greatest, step)});
  }
  if (threadIdx.x % 32 == 0) {
    of_warps[0][threadIdx.x / 32] = extremes.most_below;
    of_warps[1][threadIdx.x / 32] = extremes.greatest;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (uint32_t warp = 0; warp < kThreads / 32; ++warp) {
      extremes.Add(Extremes<Key>{of_warps[0][warp], of_warps[1][warp]});
    }
  }
  return extremes;
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_
