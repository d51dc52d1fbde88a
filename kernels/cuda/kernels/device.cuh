// Device helpers that several kernels share. Included by .cu files only.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// A read-only load that leaves no trace in L1: each byte of a payload is read once.
__device__ inline uint4 LoadStreaming(const uint4* address) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(address));
  return value;
}

__device__ inline uint32_t LoadByteStreaming(const uint8_t* address) {
  uint32_t value;
  asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(value) : "l"(address));
  return value;
}

// prmt: each nibble of kSelector picks a byte of (low, high); with 8 added, its sign eight times.
template <uint32_t kSelector>
__device__ inline uint32_t Permute(uint32_t low, uint32_t high) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "n"(kSelector));
  return result;
}

// A payload cut at 16-byte boundaries: `head` bytes, `vectors` aligned 16-byte vectors, `tail`
// bytes.
struct Cut {
  uint32_t head, vectors, tail;
  __host__ __device__ Cut(const uint8_t* data, uint32_t bytes) {
    const uint32_t to_boundary = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(data)) & 15U;
    head = to_boundary < bytes ? to_boundary : bytes;
    vectors = (bytes - head) / 16;
    tail = (bytes - head) % 16;
  }
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
