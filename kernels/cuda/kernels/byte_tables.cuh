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

// All tables of the block. Its address is that of the first byte behind what the driver reserves,
// since a kernel that uses tables has no other shared memory. As a constant it is part of the
// instructions that count.
extern __shared__ __align__(16) uint8_t byte_tables[];

// Elsewhere than at kByteTablesAt, where tables lie on compute capability 8.0 and later.
inline constexpr uint32_t kUnknownTablesAt = ~0U;
template <uint32_t kTablesAt = kByteTablesAt>
__device__ inline void CheckByteTables() {
  if (kTablesAt == kUnknownTablesAt) return;
  if (__cvta_generic_to_shared(byte_tables) != kTablesAt) __trap();
}

// Adds to the word at `offset` of the tables.
template <uint32_t kTablesAt>
__device__ inline void AddToTable(uint32_t offset, uint32_t addend) {
  if constexpr (kTablesAt == kUnknownTablesAt) {
    atomicAdd(reinterpret_cast<uint32_t*>(byte_tables + offset), addend);
  } else {
    // No clobber of memory: tables are read behind barriers.
    asm volatile("red.shared.add.u32 [%0 + %2], %1;" : : "r"(offset), "r"(addend), "n"(kTablesAt));
  }
}

// Of the counters of a thread in table t.
__device__ inline uint32_t ByteTableBase(uint32_t t, uint32_t thread) {
  return (t / 2) << 16 | t % 2 << 7 | thread << 2;
}

// Adds to the counter of byte i of the word.
template <uint32_t i, uint32_t kTablesAt = kByteTablesAt>
__device__ inline void AddByte(uint32_t word, uint32_t base, uint32_t addend) {
  AddToTable<kTablesAt>(Permute<0x7604 + (i << 4)>(word, base), addend);
}
// To those of all four.
template <uint32_t kTablesAt = kByteTablesAt>
__device__ inline void AddBytes(uint32_t word, uint32_t base, uint32_t addend) {
  AddByte<0, kTablesAt>(word, base, addend);
  AddByte<1, kTablesAt>(word, base, addend);
  AddByte<2, kTablesAt>(word, base, addend);
  AddByte<3, kTablesAt>(word, base, addend);
}

// A team's table, and the sums of this thread's two rows.
template <uint32_t kTeamWarps>
class TeamTable {
 public:
  static constexpr uint32_t kPairBytes = 2 * kTeamWarps * 64 * 32 * sizeof(uint32_t);

  __device__ TeamTable(uint32_t team_in_block, uint32_t warp_in_team, uint32_t thread)
      : row_(byte_tables + team_in_block / 2 * kPairBytes + team_in_block % 2 * 128 +
             (warp_in_team * 64 + thread) * 256),
        team_in_block_(team_in_block),
        quad_(thread % 8 * 16) {}

  __device__ void Clear() {
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) *Words(j, c) = make_uint4(0, 0, 0, 0);
    }
    Barrier();
  }

  // What rows thread and thread + 32 of this warp's 64 have got since the last time.
  __device__ void Take(uint32_t (&counted)[2]) {
    Barrier();
    TakeAlone(counted);
    Barrier();
  }
  // The same; the team has met, and meets again before it counts on.
  __device__ void TakeAlone(uint32_t (&counted)[2]) {
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      uint32_t sum = 0;
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        const uint4 words = *Words(j, c);
        sum += words.x + words.y + words.z + words.w;
      }
      counted[j] = sum - sums_[j];
      sums_[j] = sum;
    }
  }
  // Waits until all warps of the team are here.
  __device__ void Barrier() const {
    asm volatile("bar.sync %0, %1;" : : "r"(team_in_block_ + 1), "n"(kTeamWarps * 32) : "memory");
  }

 private:
  // Eight threads that are served together read eight different quads.
  __device__ uint4* Words(uint32_t j, uint32_t c) const {
    return reinterpret_cast<uint4*>(row_ + j * 32 * 256 + (c * 16 ^ quad_));
  }
  uint8_t* row_;
  uint32_t team_in_block_, quad_;
  uint32_t sums_[2] = {};
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_BYTE_TABLES_CUH_
