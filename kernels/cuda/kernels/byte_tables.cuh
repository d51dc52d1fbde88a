// Tables of counters for bytes in shared memory, in which each thread of a warp has a column:
// threads never meet in a bank, whatever the bytes are.
//
// A row of 256 bytes holds 32 counters each of two tables, so that a byte's value is byte 1 of its
// counter's address: one permutation forms it. Included by .cu files only.
#ifndef HISTOGRAM_CUDA_KERNELS_BYTE_TABLES_CUH_
#define HISTOGRAM_CUDA_KERNELS_BYTE_TABLES_CUH_

#include <cstdint>

#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/typed_rows.h"

namespace histogram::cuda {

inline constexpr uint32_t kByteTablePairBytes = 65536;

// A kernel that uses tables has no other shared memory than this.
extern __shared__ __align__(16) uint8_t byte_tables[];

__device__ inline void CheckByteTables() {
  if (__cvta_generic_to_shared(byte_tables) != kByteTablesAt) __trap();
}

// Of the counters of a thread in table t.
__device__ inline uint32_t ByteTableBase(uint32_t t, uint32_t thread) {
  return (t / 2) << 16 | t % 2 << 7 | thread << 2;
}

// Adds to the counter of byte i of the word. No clobber of memory: tables are read behind barriers.
template <uint32_t i>
__device__ inline void AddByte(uint32_t word, uint32_t base, uint32_t addend) {
  asm volatile("red.shared.add.u32 [%0 + %2], %1;"
               :
               : "r"(Permute<0x7604 + (i << 4)>(word, base)), "r"(addend), "n"(kByteTablesAt));
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_BYTE_TABLES_CUH_
