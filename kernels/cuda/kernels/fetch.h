// Copies pieces of host memory, which lie anywhere and at any alignment, into device memory by a
// kernel that reads them over the link. Functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_FETCH_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_FETCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace histogram::cuda {

// A piece lies between two multiples of this. 4 KiB keep the link busy from some 256 KiB on
// (by arithmetic, not measured apart).
inline constexpr uint32_t kHostPieceBytesMax = 4096;

struct alignas(16) HostPiece {
  uint64_t from;  // the device's address of the first byte
  uint64_t to : 48;
  uint64_t bytes : 16;  // at least 1
};

// All memory is the caller's and stays valid until the launch is done. The kernel also reads the
// bytes beside a piece in the same 16.
struct FetchLaunch {
  const HostPiece* pieces = nullptr;  // device-visible
  uint32_t count = 0;                 // > 0
  uint8_t* to = nullptr;  // device memory, aligned to 4; `to` of the pieces counts from it
  cudaStream_t stream = nullptr;
};

absl::Status EnqueueFetch(const FetchLaunch& launch);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_FETCH_H_
