// Our kernel for batches: one launch counts any number of payloads of any sizes.
//
// Shares. The batch's units of work (work.h) are cut into as many equal shares as there are teams
// of two warps, at places that only depend on the descriptors. A payload of up to kWholeRounds
// rounds belongs to the team in whose share it starts; a larger one may be cut by share boundaries.
// Neither small payloads nor large ones make stragglers, and teams never wait for each other.
//
// Counting. Each team has a table of its own, [128 values][32 lanes] of u32, 16 KiB of shared
// memory: a lane only touches its own bank. The word of value v, v < 128, also serves v + 128: v
// adds 1, v + 128 adds 1 + 0xFFFF0000, that is, one to the low half and minus one to the high half.
// One byte permutation forms the address, one the addend. (Tables of two teams are interleaved, so
// that a value's row is 256 bytes and its byte can be moved, not shifted, into the address.)
//
// Collecting. Sums of words over the lanes are right modulo 2^32 however often single words
// wrapped, so a table is never cleared: each lane keeps the sums of its two rows, and the counts
// since are the difference. Low and high halves can be told apart as long as a tile is below 65536
// bytes.
//
// Payloads cut between teams meet in an accumulator that the last of their warps reads, writes out
// and clears. Every row is written once, so rows may lie in mapped host memory.
#include <algorithm>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/registry/device.cuh"
#include "kernels/cuda/registry/kernels.h"
#include "kernels/cuda/registry/warp_batch/walk.cuh"

namespace histogram::cuda {
namespace {

constexpr uint32_t kTableBytes = 128 * 32 * sizeof(uint32_t);
constexpr uint32_t kPairBytes = 2 * kTableBytes;  // of two interleaved tables
// A block's. Shared memory has room for 14 tables; with 12 each lane gets 80 registers, not 72.
constexpr uint32_t kTeamsMax = 12;
// Where the tables lie in shared memory on compute capability 8.0 and later.
constexpr uint32_t kUsualAddress = 1024;
constexpr uint32_t kUnknownAddress = ~0U;
// What a team of a small launch should at least have to do.
constexpr uint32_t kUnitsPerTeam = 4;

// Zero between launches.
struct Slot {
  uint32_t counts[kByteValues];
};
// The clean memory: finished_warps, then a slot per team, then a ticket per team. A payload that is
// cut uses ticket and slot of the team that has its first round.
struct Clean {
  uint32_t* finished_warps;
  uint32_t* tickets;
  Slot* slots;
};

struct Arguments {
  const uint8_t* input;
  const BatchHeader* header;
  uint32_t* rows;
  uint32_t* next_rows;
  uint32_t rows_to_zero;
  Clean clean;
  uint32_t* flag;  // may be null
};

// All tables of the block. Its address is kTablesAt: what the driver reserves comes before it, and
// the kernel has no other shared memory. As a constant it is part of the instructions that count.
extern __shared__ __align__(16) uint8_t tables[];

// Waits until both warps of a team are here.
__device__ inline void TeamBarrier(uint32_t team_in_block) {
  asm volatile("bar.sync %0, %1;" : : "r"(team_in_block + 1), "n"(kTeamLanes) : "memory");
}

// A team's table, and what this lane has collected.
template <uint32_t kTablesAt>
class Counter {
 public:
  __device__ Counter(uint32_t team_in_block, uint32_t warp_in_team, uint32_t lane)
      : team_in_block_(team_in_block) {
    const uint32_t pair = team_in_block / 2;
    const uint32_t parity = team_in_block % 2;
    // The address is pair << 15 | value << 8 | parity << 7 | lane << 2; pair's lowest bit shares a
    // byte with the value.
    pair_bit_ = pair % 2 * 0x80808080U;
    base_ = (pair / 2) << 16 | parity << 7 | lane << 2;
    row_ = tables + pair * kPairBytes + parity * 128 + (warp_in_team * 64 + lane) * 256;
    chunk_ = lane % 8 * 16;
  }

  __device__ void Clear() {
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        *reinterpret_cast<uint4*>(row_ + j * 32 * 256 + (c * 16 ^ chunk_)) = make_uint4(0, 0, 0, 0);
      }
    }
    TeamBarrier(team_in_block_);
  }

  __device__ void CountVector(const uint4& vector) {
    CountWord(vector.x);
    CountWord(vector.y);
    CountWord(vector.z);
    CountWord(vector.w);
  }

  __device__ void CountByte(uint32_t value) { CountAt<0>((value & 0x7F) | pair_bit_, value); }

  // Adds what was counted since the last time to low[] and high[], where low[j] and high[j] are of
  // values 64 * warp_in_team + 32 * j + lane and those plus 128.
  __device__ void Collect(uint32_t (&low)[2], uint32_t (&high)[2]) {
    TeamBarrier(team_in_block_);
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      uint32_t sum = 0;
#pragma unroll
      for (uint32_t c = 0; c < 8; ++c) {
        const uint4 words =
            *reinterpret_cast<const uint4*>(row_ + j * 32 * 256 + (c * 16 ^ chunk_));
        sum += words.x + words.y + words.z + words.w;
      }
      const uint32_t counted = sum - sums_[j];
      sums_[j] = sum;
      const uint32_t both = counted & 0xFFFF;
      const uint32_t of_high = -(counted >> 16) & 0xFFFF;
      low[j] += both - of_high;
      high[j] += of_high;
    }
    TeamBarrier(team_in_block_);
  }

 private:
  __device__ void CountWord(uint32_t word) {
    const uint32_t rows = (word & 0x7F7F7F7FU) | pair_bit_;
    CountAt<0>(rows, word);
    CountAt<1>(rows, word);
    CountAt<2>(rows, word);
    CountAt<3>(rows, word);
  }
  // Counts byte i of `word`; `rows` is the word without its values' highest bits.
  template <uint32_t i>
  __device__ void CountAt(uint32_t rows, uint32_t word) {
    const uint32_t offset = Permute<0x7604 + (i << 4)>(rows, base_);
    // Bytes 0 and 1 of the addend are 0x0001; 2 and 3 are the sign of the byte.
    const uint32_t addend = Permute<0x8854 + i * 0x1100>(word, 1);
    if constexpr (kTablesAt == kUnknownAddress) {
      atomicAdd(reinterpret_cast<uint32_t*>(tables + offset), addend);
    } else {
      // No clobber of memory: only Collect reads the table, behind a barrier that has one.
      asm volatile("red.shared.add.u32 [%0 + %2], %1;"
                   :
                   : "r"(offset), "r"(addend), "n"(kTablesAt));
    }
  }

  uint8_t* row_;
  uint32_t team_in_block_, pair_bit_, base_, chunk_;
  uint32_t sums_[2] = {};
};

// Counts a stretch and, vector by vector, starts the loads of what comes next into the same
// registers: as many loads are under way at any time as a group has. REQUIRES: the first group is
// loaded.
template <typename Counter>
__device__ inline void CountAndLoad(const Stretch& current, const Stretch& next,
                                    uint4 (&vectors)[kGroupRounds], Counter& counter) {
  if (current.groups > 0) {
    const uint4* at = current.at;
    for (uint32_t group = 1; group < current.groups; ++group) {
      at += kGroupRounds * kTeamLanes;
#pragma unroll
      for (uint32_t j = 0; j < kGroupRounds; ++j) {
        counter.CountVector(vectors[j]);
        vectors[j] = LoadStreaming(at + j * kTeamLanes);
      }
    }
    if (next.groups > 0) {
#pragma unroll
      for (uint32_t j = 0; j < kGroupRounds; ++j) {
        counter.CountVector(vectors[j]);
        vectors[j] = LoadStreaming(next.at + j * kTeamLanes);
      }
      return;
    }
  }
#pragma unroll
  for (int32_t j = 0; j < kGroupRounds; ++j) {
    constexpr auto kLanes = static_cast<int32_t>(kTeamLanes);
    if (current.groups > 0 || j * kLanes < current.left) counter.CountVector(vectors[j]);
    if (j * kLanes < next.left) vectors[j] = LoadStreaming(next.at + j * kLanes);
  }
}

// Writes this warp's half of the row, or adds it to the payload's slot; the warp that comes last
// there writes the row.
__device__ inline void WriteRow(const Arguments& args, const Stretch& part, uint32_t warp_in_team,
                                uint32_t lane, const uint32_t (&low)[2],
                                const uint32_t (&high)[2]) {
  uint32_t* const row = args.rows + uint64_t{part.payload} * kByteValues;
  const uint32_t value = warp_in_team * 64 + lane;
  if (part.sharers() == 1) {
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      row[value + j * 32] = low[j];
      row[value + 128 + j * 32] = high[j];
    }
    return;
  }
  uint32_t* const slot = args.clean.slots[part.first_team()].counts;
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    atomicAdd(slot + value + j * 32, low[j]);
    atomicAdd(slot + value + 128 + j * 32, high[j]);
  }
  __threadfence();
  __syncwarp();
  uint32_t ticket = 0;
  if (lane == 0) ticket = atomicAdd(args.clean.tickets + part.first_team(), 1U);
  ticket = __shfl_sync(kAllLanes, ticket, 0);
  if (ticket != 2 * part.sharers() - 1) return;
  __threadfence();
#pragma unroll
  for (uint32_t j = 0; j < kByteValues; j += 32) {
    row[j + lane] = __ldcg(slot + j + lane);
    slot[j + lane] = 0;
  }
  if (lane == 0) args.clean.tickets[part.first_team()] = 0;
}

__device__ inline void SignalFinished(const Arguments& args, uint32_t warps, uint32_t lane) {
  __threadfence_system();
  __syncwarp();
  if (lane != 0 || atomicAdd(args.clean.finished_warps, 1U) != warps - 1) return;
  *args.clean.finished_warps = 0;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(args.flag) = args.header->flag_value;
}

template <uint32_t kTablesAt>
__global__ void __launch_bounds__(kTeamsMax* kTeamLanes, 1)
    WarpBatchKernelOf(const __grid_constant__ Arguments args) {
  if (kTablesAt != kUnknownAddress && __cvta_generic_to_shared(tables) != kTablesAt) __trap();
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp_in_team = threadIdx.x / 32 % 2;
  const uint32_t team_in_block = threadIdx.x / kTeamLanes;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < args.rows_to_zero * kByteValues;
       i += gridDim.x * blockDim.x) {
    args.next_rows[i] = 0;
  }
  const uint32_t units = args.header->units;
  const Shares shares = {units, min(units, gridDim.x * (blockDim.x / kTeamLanes))};
  // Neighbouring shares go to different multiprocessors.
  const uint32_t team = team_in_block * gridDim.x + blockIdx.x;
  if (team >= shares.teams) return;

  Walk walk(args.input, args.header, shares, team);
  const uint8_t* edge_at = nullptr;
  Stretch current = walk.Next(shares, edge_at);
  uint4 vectors[kGroupRounds];
#pragma unroll
  for (int32_t j = 0; j < kGroupRounds; ++j) {
    if (j * static_cast<int32_t>(kTeamLanes) < current.left) {
      vectors[j] = LoadStreaming(current.at + j * kTeamLanes);
    }
  }
  uint32_t edge = current.Has(Stretch::kEdge) ? LoadByteStreaming(edge_at) : 0;
  Counter<kTablesAt> counter(team_in_block, warp_in_team, lane);
  counter.Clear();
  uint32_t low[2] = {}, high[2] = {};
  while (current.Has(Stretch::kValid)) {
    if (current.Has(Stretch::kEdge)) counter.CountByte(edge);
    const Stretch next = walk.Next(shares, edge_at);
    if (next.Has(Stretch::kEdge)) edge = LoadByteStreaming(edge_at);
    CountAndLoad(current, next, vectors, counter);
    if (current.Has(Stretch::kCollect)) counter.Collect(low, high);
    if (current.Has(Stretch::kFinish)) {
      WriteRow(args, current, warp_in_team, lane, low, high);
      low[0] = low[1] = high[0] = high[1] = 0;
    }
    current = next;
  }
  if (args.flag != nullptr) SignalFinished(args, 2 * shares.teams, lane);
}

class WarpBatchKernel final : public CudaKernel {
 public:
  absl::string_view name() const override { return "warp_batch"; }
  absl::string_view summary() const override {
    return "many payloads a launch: equal shares of a batch per two warps, with a table of "
           "counters";
  }
  bool batches() const override { return true; }
  bool has_flag() const override { return true; }
  bool zeroes_next_rows() const override { return true; }
  uint64_t clean_bytes(const DeviceTraits& device) const override {
    return uint64_t{TeamsMax(device)} * (sizeof(Slot) + sizeof(uint32_t)) + 128;
  }

  absl::Status Prepare(const DeviceTraits& device) const override {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(KernelFor(device), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(BlockTeamsMax(device) / 2 * kPairBytes)));
    return absl::OkStatus();
  }

  absl::Status Enqueue(const Launch& launch) const override {
    const DeviceTraits& device = *launch.device;
    // Small launches spread over multiprocessors first, two teams a block.
    uint32_t pairs = std::max(1U, launch.units / (2 * kUnitsPerTeam));
    if (launch.blocks_max != 0) pairs = std::min(pairs, launch.blocks_max);
    uint32_t blocks = pairs, block_pairs = 1;
    if (pairs > device.multiprocessors) {
      blocks = device.multiprocessors;
      block_pairs = std::min(BlockTeamsMax(device) / 2, (pairs - 1) / blocks + 1);
    }
    const uint32_t teams_max = TeamsMax(device);
    auto* const clean = static_cast<uint8_t*>(launch.clean);
    const Arguments args = {
        .input = launch.input,
        .header = launch.header,
        .rows = launch.rows,
        .next_rows = launch.next_rows,
        .rows_to_zero = launch.rows_to_zero,
        .clean = {.finished_warps = reinterpret_cast<uint32_t*>(clean),
                  .tickets =
                      reinterpret_cast<uint32_t*>(clean + 128 + uint64_t{teams_max} * sizeof(Slot)),
                  .slots = reinterpret_cast<Slot*>(clean + 128)},
        .flag = launch.flag,
    };
    KernelFor(
        device)<<<blocks, block_pairs * 2 * kTeamLanes, block_pairs * kPairBytes, launch.stream>>>(
        args);
    HISTOGRAM_RETURN_IF_ERROR(LaunchStatus(name()));
    return EnqueueFoldRows(launch);
  }

 private:
  using Kernel = void (*)(Arguments);
  static Kernel KernelFor(const DeviceTraits& device) {
    return device.shared_bytes_reserved == kUsualAddress ? WarpBatchKernelOf<kUsualAddress>
                                                         : WarpBatchKernelOf<kUnknownAddress>;
  }
  // Even: tables come in pairs. At least 2: every supported device has 64 KiB.
  static uint32_t BlockTeamsMax(const DeviceTraits& device) {
    return std::clamp(device.shared_bytes_max / kPairBytes * 2, 2U, kTeamsMax);
  }
  static uint32_t TeamsMax(const DeviceTraits& device) {
    return device.multiprocessors * BlockTeamsMax(device);
  }
};

}  // namespace

const CudaKernel& WarpBatch() {
  static const WarpBatchKernel kernel;
  return kernel;
}

}  // namespace histogram::cuda
