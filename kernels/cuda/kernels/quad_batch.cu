// Our kernel for batches of payloads that are not small: teams of four warps with 32 KiB of
// counters each (team_batch.cuh).
//
// A table is [256 values][32 threads] of u32. Beside warp_batch's, reading it takes twice as long,
// but counting a byte takes one byte permutation and one reduction, and a payload of any length is
// collected once.
#include "kernels/cuda/kernels/team_batch.cuh"

namespace histogram::cuda {
namespace {

struct PlainLayout {
  static constexpr uint32_t kTeamWarps = 4;
  static constexpr uint32_t kTeamsMax = 6;
  // On mixed sizes two loads in flight reach 81 % of the bound, four 77, six 73 (H200, c1e35e9).
  static constexpr uint32_t kGroupRounds = 2;
  // Mixed sizes: 20 reach 89.0 %, 16 86.8, 12 85.6 (H200, c1e35e9).
  static constexpr uint32_t kOverheadUnits = 20;
  // No tiles: counts are below 2^32, as payloads are.
  static constexpr uint32_t kTileGroups = uint32_t{1} << 30;
  static constexpr uint32_t kCounts = 2;
  __device__ static constexpr uint32_t ValueOf(uint32_t j) { return j * 32; }

  template <uint32_t kTablesAt>
  class Counter {
   public:
    __device__ Counter(uint32_t team_in_block, uint32_t warp_in_team, uint32_t thread)
        : table_(team_in_block, warp_in_team, thread),
          base_(ByteTableBase(team_in_block, thread)) {}

    __device__ void Clear() { table_.Clear(); }
    __device__ void CountWord(uint32_t word) { AddBytes<kTablesAt>(word, base_, 1); }
    __device__ void CountByte(uint32_t value) { AddByte<0, kTablesAt>(value, base_, 1); }

    __device__ void Collect(uint32_t (&counts)[kCounts]) {
      uint32_t counted[2];
      table_.Take(counted);
      counts[0] += counted[0];
      counts[1] += counted[1];
    }

   private:
    TeamTable<kTeamWarps> table_;
    uint32_t base_;
  };
};

}  // namespace

extern const CudaKernel kQuadBatch = TeamBatchKernel<PlainLayout>(
    "quad_batch",
    "many payloads a launch: equal shares of a batch per four warps, with a plain table",
    Ladder::kNone);

}  // namespace histogram::cuda
