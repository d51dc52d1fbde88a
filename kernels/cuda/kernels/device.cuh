// Device helpers that several kernels share. Included by .cu files only.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// The bin table of a block in shared memory. With kIdentity it holds nothing and costs nothing.
template <bool kIdentity>
struct BlockBins {
  uint16_t bin_of[kByteValues];
  __device__ void Load(const BinMap& map) {
    for (uint32_t i = threadIdx.x; i < kByteValues; i += blockDim.x) bin_of[i] = map.bin_of[i];
  }
  __device__ uint32_t operator[](uint32_t value) const { return bin_of[value]; }
};
template <>
struct BlockBins<true> {
  __device__ void Load(const BinMap& /*map*/) {}
  __device__ uint32_t operator[](uint32_t value) const { return value; }
};

// Whether a mapped value is counted; always so for the identity.
template <bool kIdentity>
__device__ inline bool IsBin(uint32_t bin) {
  return kIdentity || bin != BinMap::kNoBin;
}

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

// Launches KERNEL<true> or KERNEL<false> according to whether there is a bin map.
#define HISTOGRAM_LAUNCH_BINNED(KERNEL, blocks, threads, shared, launch, ...)                   \
  do {                                                                                          \
    const BinMap* const bin_map = (launch).bin_map;                                             \
    if (bin_map == nullptr) {                                                                   \
      KERNEL<true><<<(blocks), (threads), (shared), (launch).stream>>>(__VA_ARGS__, BinMap());  \
    } else {                                                                                    \
      KERNEL<false><<<(blocks), (threads), (shared), (launch).stream>>>(__VA_ARGS__, *bin_map); \
    }                                                                                           \
  } while (false)

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
