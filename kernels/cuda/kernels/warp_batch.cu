// Our kernel for batches of small payloads: teams of two warps with 16 KiB of counters each
// (team_batch.cuh), so that a payload's table is read quickly.
//
// A table is [128 values][32 threads] of u32. The word of value v, v < 128, also serves v + 128: v
// adds 1, v + 128 adds 1 + 0xFFFF0000, that is, one to the low half and minus one to the high half.
// One byte permutation forms the address, one the addend. A tile is what a team counts between two
// collections. Low and high halves can be told apart as long as it is below 65536 bytes.
#include "kernels/cuda/kernels/team_batch.cuh"

namespace histogram::cuda {
namespace {

struct PackedLayout {
  static constexpr uint32_t kTeamWarps = 2;
  // Shared memory has room for 14 tables; with 12 each thread gets 80 registers, not 72. Payloads
  // of 4 KiB, 64 KiB and mixed sizes reach 79, 87 and 84 % of the bound instead of 74, 85 and 81
  // (H200, 4b6556a).
  static constexpr uint32_t kTeamsMax = 12;
  // With 5 or 6 loads in flight payloads of 4 KiB fall from 79 to 57 %: they fill no group (H200).
  static constexpr uint32_t kGroupRounds = 4;
  // Mixed sizes: 12 reach 86.9 %, 10 86.7, 14 86.4, 20 83.7 (H200, c1e35e9).
  static constexpr uint32_t kOverheadUnits = 12;
  // 15 * 4 KiB and the edges stay below 65536 bytes.
  static constexpr uint32_t kTileGroups = 15;
  static constexpr uint32_t kCounts = 4;
  __device__ static constexpr uint32_t ValueOf(uint32_t j) { return j / 2 * 128 + j % 2 * 32; }

  template <uint32_t kTablesAt>
  class Counter {
   public:
    __device__ Counter(uint32_t team_in_block, uint32_t warp_in_team, uint32_t thread)
        : table_(team_in_block, warp_in_team, thread) {
      const uint32_t pair = team_in_block / 2;
      // The address is pair << 15 | value << 8 | parity << 7 | thread << 2; pair's lowest bit
      // shares a byte with the value.
      pair_bit_ = pair % 2 * 0x80808080U;
      base_ = (pair / 2) << 16 | team_in_block % 2 << 7 | thread << 2;
    }

    __device__ void Clear() { table_.Clear(); }
    __device__ void CountWord(uint32_t word) {
      const uint32_t rows = (word & 0x7F7F7F7FU) | pair_bit_;
      CountAt<0>(rows, word);
      CountAt<1>(rows, word);
      CountAt<2>(rows, word);
      CountAt<3>(rows, word);
    }
    __device__ void CountByte(uint32_t value) { CountAt<0>((value & 0x7F) | pair_bit_, value); }

    __device__ void Collect(uint32_t (&counts)[kCounts]) {
      uint32_t counted[2];
      table_.Take(counted);
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t both = counted[j] & 0xFFFF;
        const uint32_t of_high = -(counted[j] >> 16) & 0xFFFF;
        counts[j] += both - of_high;
        counts[j + 2] += of_high;
      }
    }

   private:
    // Counts byte i of `word`; `rows` is the word without its values' highest bits.
    template <uint32_t i>
    __device__ void CountAt(uint32_t rows, uint32_t word) {
      // Bytes 0 and 1 of the addend are 0x0001; 2 and 3 are the sign of the byte.
      AddToTable<kTablesAt>(Permute<0x7604 + (i << 4)>(rows, base_),
                            Permute<0x8854 + i * 0x1100>(word, 1));
    }

    TeamTable<kTeamWarps> table_;
    uint32_t pair_bit_, base_;
  };
};

}  // namespace

extern const CudaKernel kWarpBatch = TeamBatchKernel<PackedLayout>(
    "warp_batch",
    "many small payloads a launch: equal shares of a batch per two warps, with a packed "
    "table",
    Ladder::kByBlocks);

}  // namespace histogram::cuda
