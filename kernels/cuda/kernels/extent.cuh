// The least and the greatest key (extent.h) of the samples that a block's threads have seen.
//
// Functions without state. Included by .cu files only.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_

#include <cstdint>
#include <cub/block/block_reduce.cuh>

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
__device__ inline Extremes<Key> OfBlock(const Extremes<Key>& extremes) {
  using Reduce = cub::BlockReduce<Extremes<Key>, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  return Reduce(storage).Reduce(extremes, [](Extremes<Key> both, const Extremes<Key>& more) {
    both.Add(more);
    return both;
  });
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_EXTENT_CUH_
