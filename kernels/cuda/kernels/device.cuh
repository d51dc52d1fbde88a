// Device helpers that several kernels share. Included by .cu files only.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

inline constexpr uint32_t kAllThreads = ~0U;  // of a warp

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

// Counts the sixteen bytes of a vector, word by word.
template <typename Counter>
__device__ inline void CountVector(Counter& counter, const uint4& vector) {
  counter.CountWord(vector.x);
  counter.CountWord(vector.y);
  counter.CountWord(vector.z);
  counter.CountWord(vector.w);
}

// A table of bytes for the threads of a block of 1024, [256 values][64 columns] of u32 in shared
// memory. A thread of an even warp owns column `thread`, of an odd warp column 32 + thread: its 32
// neighbours always hit 32 different banks, whatever the data is, so no distribution is slower than
// another. A value's row is 256 bytes long, so the address of a counter is the value in the second
// byte and the column in the first: one byte permutation forms it.
class Columns {
 public:
  static constexpr uint32_t kThreads = 1024, kColumns = 64;
  static constexpr uint32_t kBytes = kByteValues * kColumns * sizeof(uint32_t);

  __device__ explicit Columns(uint8_t* table)
      : table_(table), column_(threadIdx.x % kColumns * sizeof(uint32_t)) {}

  // The block has to meet before it counts.
  __device__ void Clear() const {
    for (uint32_t i = threadIdx.x; i < kBytes / 16; i += kThreads) {
      reinterpret_cast<uint4*>(table_)[i] = make_uint4(0, 0, 0, 0);
    }
  }

  __device__ void CountByte(uint32_t value) const { Add((value << 8) + column_); }
  __device__ void CountWord(uint32_t word) const {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      // Bytes 0 and 1 of the result: the column, and byte i of the word; bytes 2 and 3 are zero.
      Add(__byte_perm(word, column_, 0x7704 + (i << 4)));
    }
  }

  // The count of each value, in place of the table. The block meets before and after.
  __device__ uint32_t* Sums() const {
    __syncthreads();
    const uint32_t sum = SumOfValue();
    __syncthreads();  // the table is read, its memory is free
    auto* const sums = reinterpret_cast<uint32_t*>(table_);
    if (threadIdx.x % 4 == 0) sums[threadIdx.x / 4] = sum;
    __syncthreads();
    return sums;
  }

 private:
  __device__ void Add(uint32_t offset) const {
    atomicAdd(reinterpret_cast<uint32_t*>(table_ + offset), 1U);
  }

  // Sum of a quarter of value threadIdx.x / 4's counters, then of all four; valid in each of the
  // four.
  __device__ uint32_t SumOfValue() const {
    const uint32_t value = threadIdx.x / 4;
    const uint32_t quarter = threadIdx.x % 4;
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      // Of eight threads that are served together, four read one half of the banks, four the other.
      const uint32_t quad = (i * 4 + quarter) ^ ((value % 2) * 4);
      const uint4 counters =
          *reinterpret_cast<const uint4*>(table_ + value * kColumns * 4 + quad * 16);
      sum += counters.x + counters.y + counters.z + counters.w;
    }
    sum += __shfl_xor_sync(kAllThreads, sum, 1);
    sum += __shfl_xor_sync(kAllThreads, sum, 2);
    return sum;
  }

  uint8_t* const table_;
  const uint32_t column_;  // its first byte in each row
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_DEVICE_CUH_
