// The common part of the batch kernels: one launch counts any number of payloads of any sizes.
//
// Shares. The batch's units of work (kernel.h) are cut into as many equal shares as there are teams
// of warps, at places that only depend on the descriptors. A payload of up to kWholeUnits units
// belongs to the team in whose share it starts; a larger one may be cut by share boundaries.
// Neither small payloads nor large ones make stragglers, and teams never wait for each other.
//
// Tables. Each team has a table of its own in shared memory, 64 rows of 32 threads a warp, in which
// a thread only touches its own bank. The tables of two teams are interleaved, so that a row is 256
// bytes and its number can be moved, not shifted, into the address: one byte permutation forms it.
//
// Collecting. Sums of words over the threads are right modulo 2^32 however often single words
// wrapped. So a table is cleared only once: each thread keeps the sums of its two rows, and the
// counts since then are the difference.
//
// Payloads cut between teams meet in an accumulator that the last of their warps reads, writes out
// and clears. Every row is written once, so rows may lie in mapped host memory.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_TEAM_BATCH_CUH_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_TEAM_BATCH_CUH_

#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/byte_tables.cuh"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/walk.cuh"

namespace histogram::cuda {

// Zero between launches.
struct BatchSlot {
  uint32_t counts[kByteValues];
};
// The clean memory: finished_warps, then a slot per team, then a ticket per team. A payload that is
// cut uses ticket and slot of the team that has its first round.
struct BatchClean {
  uint32_t* finished_warps;
  uint32_t* tickets;
  BatchSlot* slots;
};

struct BatchArguments {
  const uint8_t* input;
  const BatchHeader* header;
  uint32_t* rows;
  BatchClean clean;
  uint32_t* flag;  // may be null
};

// Counts a stretch and, vector by vector, starts the loads of what comes next into the same
// registers: as many loads are under way at any time as a group has. REQUIRES: the first group is
// loaded.
template <uint32_t kTeamThreads, typename Counter, size_t kGroupRounds>
__device__ inline void CountAndLoad(const Stretch& current, const Stretch& next,
                                    uint4 (&vectors)[kGroupRounds], Counter& counter) {
  if (current.groups > 0) {
    const uint4* at = current.at;
    for (uint32_t group = 1; group < current.groups; ++group) {
      at += kGroupRounds * kTeamThreads;
#pragma unroll
      for (uint32_t j = 0; j < kGroupRounds; ++j) {
        CountVector(counter, vectors[j]);
        vectors[j] = LoadStreaming(at + j * kTeamThreads);
      }
    }
    if (next.groups > 0) {
#pragma unroll
      for (uint32_t j = 0; j < kGroupRounds; ++j) {
        CountVector(counter, vectors[j]);
        vectors[j] = LoadStreaming(next.at + j * kTeamThreads);
      }
      return;
    }
  }
#pragma unroll
  for (int32_t j = 0; j < static_cast<int32_t>(kGroupRounds); ++j) {
    constexpr auto kThreads = static_cast<int32_t>(kTeamThreads);
    if (current.groups > 0 || j * kThreads < current.left) CountVector(counter, vectors[j]);
    if (j * kThreads < next.left) vectors[j] = LoadStreaming(next.at + j * kThreads);
  }
}

// Writes this thread's part of the row, or adds it to the payload's slot; the warp that comes last
// there writes the row.
template <typename Layout>
__device__ inline void WriteRow(const BatchArguments& args, const Stretch& part,
                                uint32_t warp_in_team, uint32_t thread,
                                const uint32_t (&counts)[Layout::kCounts]) {
  uint32_t* const row = args.rows + uint64_t{part.payload} * kByteValues;
  const uint32_t value = warp_in_team * 64 + thread;
  if (part.sharers() == 1) {
#pragma unroll
    for (uint32_t j = 0; j < Layout::kCounts; ++j) row[value + Layout::ValueOf(j)] = counts[j];
    return;
  }
  uint32_t* const slot = args.clean.slots[part.first_team()].counts;
#pragma unroll
  for (uint32_t j = 0; j < Layout::kCounts; ++j) {
    atomicAdd(slot + value + Layout::ValueOf(j), counts[j]);
  }
  __threadfence();
  __syncwarp();
  uint32_t ticket = 0;
  if (thread == 0) ticket = atomicAdd(args.clean.tickets + part.first_team(), 1U);
  ticket = __shfl_sync(kAllThreads, ticket, 0);
  if (ticket != Layout::kTeamWarps * part.sharers() - 1) return;
  __threadfence();
#pragma unroll
  for (uint32_t j = 0; j < kByteValues; j += 32) {
    row[j + thread] = __ldcg(slot + j + thread);
    slot[j + thread] = 0;
  }
  if (thread == 0) args.clean.tickets[part.first_team()] = 0;
}

__device__ inline void SignalFinished(const BatchArguments& args, uint32_t warps, uint32_t thread) {
  __threadfence_system();
  __syncwarp();
  if (thread != 0 || atomicAdd(args.clean.finished_warps, 1U) != warps - 1) return;
  *args.clean.finished_warps = 0;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(args.flag) = args.header->flag_value;
}

// A Layout says how a team counts:
//   kTeamWarps      warps of a team
//   kTeamsMax       teams of a block, at most
//   kGroupRounds    16-byte loads of a thread that are under way together
//   kTileGroups     groups between two collections, at most
//   kOverheadUnits  the cost of a payload besides its rounds
//   kCounts         counts of each thread
//   ValueOf(j)      the value of count j, from 64 * warp_in_team + thread on
//   Counter<kTablesAt>(team_in_block, warp_in_team, thread)
//                   has Clear, CountWord, CountByte, and Collect(counts), which adds the counts
//                   since the last collection
template <typename Layout, uint32_t kTablesAt>
__global__ void __launch_bounds__(Layout::kTeamsMax* Layout::kTeamWarps * 32, 1)
    TeamBatchKernelOf(const __grid_constant__ BatchArguments args) {
  using LayoutWalk = Walk<Layout>;
  constexpr uint32_t kTeamThreads = LayoutWalk::kTeamThreads;
  CheckByteTables<kTablesAt>();
  const uint32_t thread = threadIdx.x % 32;
  const uint32_t warp_in_team = threadIdx.x / 32 % Layout::kTeamWarps;
  const uint32_t team_in_block = threadIdx.x / kTeamThreads;
  const uint32_t units = args.header->units;
  const Shares shares = {
      units, min(units / LayoutWalk::kRoundUnits, gridDim.x * (blockDim.x / kTeamThreads))};
  // Neighbouring shares go to different multiprocessors.
  const uint32_t team = team_in_block * gridDim.x + blockIdx.x;
  if (team >= shares.teams) return;

  LayoutWalk walk(args.input, args.header, shares, team);
  const uint8_t* edge_at = nullptr;
  Stretch current = walk.Next(shares, edge_at);
  uint4 vectors[Layout::kGroupRounds];
#pragma unroll
  for (int32_t j = 0; j < static_cast<int32_t>(Layout::kGroupRounds); ++j) {
    if (j * static_cast<int32_t>(kTeamThreads) < current.left) {
      vectors[j] = LoadStreaming(current.at + j * kTeamThreads);
    }
  }
  uint32_t edge = current.Has(Stretch::kEdge) ? LoadByteStreaming(edge_at) : 0;
  typename Layout::template Counter<kTablesAt> counter(team_in_block, warp_in_team, thread);
  counter.Clear();
  uint32_t counts[Layout::kCounts] = {};
  while (current.Has(Stretch::kValid)) {
    if (current.Has(Stretch::kEdge)) counter.CountByte(edge);
    const Stretch next = walk.Next(shares, edge_at);
    if (next.Has(Stretch::kEdge)) edge = LoadByteStreaming(edge_at);
    CountAndLoad<kTeamThreads>(current, next, vectors, counter);
    if (current.Has(Stretch::kCollect)) counter.Collect(counts);
    if (current.Has(Stretch::kFinish)) {
      WriteRow<Layout>(args, current, warp_in_team, thread, counts);
#pragma unroll
      for (uint32_t j = 0; j < Layout::kCounts; ++j) counts[j] = 0;
    }
    current = next;
  }
  if (args.flag != nullptr) SignalFinished(args, Layout::kTeamWarps * shares.teams, thread);
}

// How a layout is launched.
template <typename Layout>
class TeamBatch {
 public:
  static uint64_t CleanBytes(const DeviceTraits& device) {
    return uint64_t{TeamsMax(device)} * (sizeof(BatchSlot) + sizeof(uint32_t)) + 128;
  }

  static absl::Status Prepare(const DeviceTraits& device) {
    return AllowShared(KernelFor(device), BlockTeamsMax(device) / 2 * kPairBytes);
  }

  static cudaError_t Enqueue(const Launch& launch, size_t /*payload*/) {
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
    auto* const slots = reinterpret_cast<BatchSlot*>(clean + 128);
    const BatchArguments args = {
        .input = launch.input,
        .header = launch.header,
        .rows = launch.rows,
        .clean = {.finished_warps = reinterpret_cast<uint32_t*>(clean),
                  .tickets = reinterpret_cast<uint32_t*>(slots + teams_max),
                  .slots = slots},
        .flag = launch.flag,
    };
    KernelFor(device)<<<blocks, block_pairs * 2 * Layout::kTeamWarps * 32, block_pairs * kPairBytes,
                        launch.stream>>>(args);
    return cudaGetLastError();
  }

 private:
  static constexpr uint32_t kPairBytes = TeamTable<Layout::kTeamWarps>::kPairBytes;
  // What a team of a small launch should at least have to do.
  static constexpr uint32_t kUnitsPerTeam = 2 * Layout::kTeamWarps;

  using Kernel = void (*)(BatchArguments);
  static Kernel KernelFor(const DeviceTraits& device) {
    return device.shared_bytes_reserved == kByteTablesAt
               ? TeamBatchKernelOf<Layout, kByteTablesAt>
               : TeamBatchKernelOf<Layout, kUnknownTablesAt>;
  }
  // Even: tables come in pairs. At least 2: every supported device has 64 KiB.
  static uint32_t BlockTeamsMax(const DeviceTraits& device) {
    return std::clamp(device.shared_bytes_max / kPairBytes * 2, 2U, Layout::kTeamsMax);
  }
  static uint32_t TeamsMax(const DeviceTraits& device) {
    return device.multiprocessors * BlockTeamsMax(device);
  }
};

// The registry's view of a layout.
template <typename Layout>
constexpr CudaKernel TeamBatchKernel(absl::string_view name, absl::string_view summary,
                                     Ladder ladder) {
  return {.name = name,
          .summary = summary,
          .enqueue = TeamBatch<Layout>::Enqueue,
          .batches = true,
          .payload_overhead_units = Layout::kOverheadUnits,
          .has_flag = true,
          .ladder = ladder,
          .clean_bytes = TeamBatch<Layout>::CleanBytes,
          .prepare = TeamBatch<Layout>::Prepare};
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_TEAM_BATCH_CUH_
