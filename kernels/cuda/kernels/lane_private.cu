// Our kernel for large payloads: every thread of a warp counts in a column of its own
// (device.cuh). An increment is a byte permutation and one shared-memory reduction.
//
// Of a payload that is not large, groups of loads go to blocks in turn. A larger one is handed out
// by tickets: multiprocessors that are nearer to the memory take more of it, and all end together.
// A ticket is drawn two ahead, so that its loads begin before the block meets.
//
// The table is cleared while the first loads are under way. The blocks add
// their counts up in an accumulator. The last block to finish writes them to the row and clears the
// accumulator for the next launch.
// The reductions of all blocks come at about the same time and to the same 1 KiB: each is a whole
// line, and each block begins at another one.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"

namespace histogram::cuda {
namespace {

// A table takes 64 KiB of shared memory. Two blocks with 2 loads a thread reach
// 98.7, 96.2 and 77 % of the read ceiling at 1 GiB, 256 MiB and 16 MiB, one block with 8
// loads 97.5, 94.1 and 76 (H200, c241017).
constexpr uint32_t kThreads = Columns::kThreads;
constexpr uint32_t kTicketBytes = 16;  // behind the table
// 16-byte loads in flight in each thread. At 1 GiB, 256 MiB and 16 MiB two reach 97.1, 95.9 and 79
// % of the read ceiling, four 96.4, 96.1 and 75 (H200, without tickets).
constexpr uint32_t kLoads = 2;
constexpr uint32_t kGroupVectors = kThreads * kLoads;
// Payloads of up to so many groups a block are shared out evenly, without tickets: 16 MiB of
// letters take 9.5 us instead of 10.7 (H200, 6956262).
constexpr uint32_t kEvenGroups = 4;
// What a ticket names, and how many tickets a block at the end name single groups. Tickets take 1
// GiB from 97.1 to 98.7 % of the ceiling, and 256 MiB from 95.9 to 96.2 (H200, c241017). Stretches
// of 2 or 8 have 98.4 at 1 GiB. Drawn two ahead with 6 singles, 256 MiB take 64.0 us instead
// of 64.3 (6956262).
constexpr uint32_t kStretchGroups = 4;
constexpr uint32_t kSingles = 6;
constexpr uint32_t kLineWords = 32;  // of 128 bytes

// Zero between launches.
struct Accumulator {
  uint32_t counts[kByteValues];
  uint32_t finished_blocks;
  uint32_t tickets;
};

struct Arguments {
  const uint8_t* data;
  uint32_t bytes;
  uint32_t* row;
  Accumulator* accumulator;
  uint32_t groups;            // of kGroupVectors vectors
  uint32_t long_tickets;      // of kStretchGroups groups each
  bool draws;                 // blocks draw tickets; else they take groups in turn
  uint32_t* flag;             // may be null
  const BatchHeader* header;  // holds the flag's value
};

// The last block to arrive writes the row, clears the accumulator and sets the flag.
// `is_last` is shared memory that is free by now.
__device__ inline void WriteRowIfLast(const Arguments& args, volatile uint32_t& is_last) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(&args.accumulator->finished_blocks, 1U) == gridDim.x - 1 ? 1 : 0;
  }
  __syncthreads();
  if (is_last == 0) return;
  __threadfence();
  if (threadIdx.x < kByteValues) {
    args.row[threadIdx.x] = __ldcg(&args.accumulator->counts[threadIdx.x]);
    args.accumulator->counts[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) args.accumulator->finished_blocks = 0;
  if (args.flag == nullptr) return;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *static_cast<volatile uint32_t*>(args.flag) = args.header->flag_value;
}

// Starts the loads of a group. REQUIRES: all of its vectors exist.
__device__ inline void LoadGroup(const uint4* vectors, uint32_t group, uint4 (&loaded)[kLoads]) {
  const uint4* const at = vectors + uint64_t{group} * kGroupVectors + threadIdx.x;
#pragma unroll
  for (uint32_t j = 0; j < kLoads; ++j) loaded[j] = LoadStreaming(at + j * kThreads);
}

__device__ inline void CountGroup(const Columns& columns, uint4 (&loaded)[kLoads]) {
#pragma unroll
  for (uint32_t j = 0; j < kLoads; ++j) CountVector(columns, loaded[j]);
}

// Tickets name stretches of groups: first the long ones, then single groups.
struct Tickets {
  uint32_t groups, long_tickets;
  __device__ uint32_t Count() const {
    return long_tickets + groups - long_tickets * kStretchGroups;
  }
  __device__ uint32_t First(uint32_t ticket) const {
    return ticket < long_tickets ? ticket * kStretchGroups
                                 : ticket + long_tickets * (kStretchGroups - 1);
  }
  __device__ uint32_t Length(uint32_t ticket) const {
    return ticket < long_tickets ? kStretchGroups : 1;
  }
};

// Counts the block's share. `loaded` is the first group of the ticket with the block's number; the
// next is not drawn either. `drawn`: two, used in turn. Everybody knows the ticket after the one at
// hand, so that there is always one group under way; while that is counted, the one after is drawn.
__device__ inline void CountByTickets(const Arguments& args, const Tickets& tickets,
                                      const uint4* vectors, const Columns& columns, uint32_t* drawn,
                                      uint4 (&loaded)[kLoads]) {
  const uint32_t count = tickets.Count();
  uint32_t mine = blockIdx.x, next = gridDim.x + blockIdx.x;
  for (uint32_t turn = 0; mine < count; turn ^= 1) {
    if (threadIdx.x == 0) {
      drawn[turn] = 2 * gridDim.x + atomicAdd(&args.accumulator->tickets, 1U);
    }
    const uint32_t first = tickets.First(mine), end = first + tickets.Length(mine);
    for (uint32_t group = first + 1; group < end; ++group) {
      CountGroup(columns, loaded);
      LoadGroup(vectors, group, loaded);
    }
    CountGroup(columns, loaded);
    mine = next;
    if (mine < count) LoadGroup(vectors, tickets.First(mine), loaded);
    __syncthreads();
    next = drawn[turn];
  }
  // There are as many draws as tickets: the block that got the last one is the last to draw.
  if (threadIdx.x == 0 && next == 2 * gridDim.x + count - 1) args.accumulator->tickets = 0;
}

// What is left when all full groups are counted: less than a group, and the edges.
__device__ inline void CountRest(const Arguments& args, const Cut& cut, const uint4* vectors,
                                 uint32_t groups, const Columns& columns) {
  const uint32_t stride = gridDim.x * kThreads;
  for (uint32_t i = groups * kGroupVectors + blockIdx.x * kThreads + threadIdx.x; i < cut.vectors;
       i += stride) {
    CountVector(columns, LoadStreaming(vectors + i));
  }
  if (blockIdx.x == 0 && threadIdx.x < cut.head + cut.tail) {
    const uint32_t i = threadIdx.x < cut.head ? threadIdx.x : threadIdx.x + cut.vectors * 16;
    columns.CountByte(LoadByteStreaming(args.data + i));
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    LanePrivateKernelOf(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) uint8_t table[];  // then room for tickets, with args.draws
  const Cut cut(args.data, args.bytes);
  const auto* const vectors = reinterpret_cast<const uint4*>(args.data + cut.head);
  const Columns columns(table);
  const Tickets tickets = {args.groups, args.long_tickets};
  uint4 loaded[kLoads];
  const uint32_t first_group = args.draws ? tickets.First(blockIdx.x) : blockIdx.x;
  if (first_group < args.groups) LoadGroup(vectors, first_group, loaded);
  columns.Clear();
  __syncthreads();
  if (args.draws) {
    CountByTickets(args, tickets, vectors, columns,
                   reinterpret_cast<uint32_t*>(table + Columns::kBytes), loaded);
  } else {
    for (uint32_t group = first_group; group < args.groups;) {
      CountGroup(columns, loaded);
      group += gridDim.x;
      if (group < args.groups) LoadGroup(vectors, group, loaded);
    }
  }
  CountRest(args, cut, vectors, args.groups, columns);

  uint32_t* const sums = columns.Sums();
  const uint32_t value = (threadIdx.x + blockIdx.x * kLineWords) % kByteValues;
  const uint32_t sum = threadIdx.x < kByteValues ? sums[value] : 0;
  if (sum != 0) atomicAdd(&args.accumulator->counts[value], sum);
  WriteRowIfLast(args, *sums);
}

// With room for tickets, where a block may have it.
uint32_t SharedBytes(const DeviceTraits& device) {
  return std::min(device.shared_bytes_max, Columns::kBytes + kTicketBytes);
}
uint32_t Blocks(const Launch& launch, uint32_t bytes) {
  const uint32_t resident = std::max(1U, std::min(2U, launch.device->shared_bytes_multiprocessor /
                                                          (SharedBytes(*launch.device) + 1024)));
  const uint32_t most = launch.device->multiprocessors * resident;
  // A block is worth its table from one load per thread on.
  return std::clamp(bytes / (kThreads * 16), 1U, most);
}

absl::Status Prepare(const DeviceTraits& device) {
  return AllowShared(LanePrivateKernelOf, SharedBytes(device));
}

cudaError_t Enqueue(const Launch& launch, size_t i) {
  const PayloadDescriptor& payload = launch.payloads[i];
  const bool is_last = i + 1 == launch.payloads.size();
  const uint32_t blocks = Blocks(launch, payload.bytes);
  Arguments args = {
      .data = launch.input + payload.offset,
      .bytes = payload.bytes,
      .row = launch.rows + i * kByteValues,
      .accumulator = static_cast<Accumulator*>(launch.clean),
      .groups = Cut(launch.input + payload.offset, payload.bytes).vectors / kGroupVectors,
      .long_tickets = 0,
      .draws = false,
      .flag = is_last ? launch.flag : nullptr,
      .header = launch.header,
  };
  // When not every block would get a group, the rest, which is shared out more finely, is all.
  if (args.groups < blocks) args.groups = 0;
  if (SharedBytes(*launch.device) > Columns::kBytes && args.groups > blocks * kEvenGroups) {
    args.draws = true;
    args.long_tickets = (args.groups - std::min(args.groups, blocks * kSingles)) / kStretchGroups;
  }
  LanePrivateKernelOf<<<blocks, kThreads, SharedBytes(*launch.device), launch.stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

extern const CudaKernel kLanePrivate = {
    .name = "lane_private",
    .summary = "a column of counters per thread in shared memory, bank = thread",
    .enqueue = Enqueue,
    .has_flag = true,
    .clean_bytes = [](const DeviceTraits& /*device*/) -> uint64_t { return sizeof(Accumulator); },
    .prepare = Prepare};

}  // namespace histogram::cuda
