// Our kernel for batches: one launch counts any number of payloads of any sizes.
//
// Shares. The batch's units of work (work.h) are cut into as many equal shares as there are warps,
// at places that only depend on the descriptors. A payload of up to kWholeRounds rounds belongs to
// the warp in whose share it starts; a larger one may be cut by share boundaries. Neither small
// payloads nor large ones make stragglers, and warps never wait for each other.
//
// Counting. Each warp has a table of its own, [128 values][32 lanes] of u32, 16 KiB of shared
// memory: a lane only touches its own bank. The word of value v, v < 128, also serves v + 128: v
// adds 1, v + 128 adds 1 + 0xFFFF0000, that is, one to the low half and minus one to the high half.
// One byte permutation forms the address, one the addend. (Tables of two warps are interleaved, so
// that a value's row is 256 bytes and its byte can be moved, not shifted, into the address.)
//
// Collecting. Sums of words over the lanes are right modulo 2^32 however often single words
// wrapped, so a table is never cleared: each lane keeps the sums of its four rows, and the counts
// since are the difference. Low and high halves can be told apart as long as a tile is below 65536
// bytes.
//
// Payloads cut between warps meet in an accumulator that the last of their warps reads, writes out
// and clears. Every row is written once, so rows may lie in mapped host memory.
#include <algorithm>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/registry/device.cuh"
#include "kernels/cuda/registry/kernels.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kAllLanes = 0xFFFFFFFFU;
constexpr uint32_t kTableBytes = 128 * 32 * sizeof(uint32_t);
constexpr uint32_t kPairBytes = 2 * kTableBytes;  // of two interleaved tables
constexpr uint32_t kWarpsMax = 14;                // a block's: 224 KiB of tables
// Payloads up to so many rounds are not cut between warps.
constexpr uint32_t kWholeRounds = 16;
// Rounds in flight: a lane's 16-byte loads that are started together.
constexpr uint32_t kGroupRounds = 8;
// Groups between two collections: (15 * 8 * 512) bytes and the edges stay below 65536.
constexpr uint32_t kTileGroups = 15;
// What a warp of a small launch should at least have to do.
constexpr uint32_t kUnitsPerWarp = 8;

// Zero between launches.
struct Slot {
  uint32_t counts[kByteValues];
};
// The clean memory: finished_warps, then a ticket per warp, then a slot per warp. A payload that is
// cut uses ticket and slot of the warp that has its first round.
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

// How the units are shared out: share w is [Begin(w), Begin(w + 1)).
struct Shares {
  uint32_t units, warps;
  __device__ uint32_t Begin(uint32_t warp) const {
    return static_cast<uint32_t>(uint64_t{warp} * units / warps);
  }
  // The warp in whose share `unit` lies.
  __device__ uint32_t WarpOf(uint32_t unit) const {
    return static_cast<uint32_t>(((uint64_t{unit} + 1) * warps - 1) / units);
  }
};

// What a warp reads next: up to kGroupRounds rounds of one payload, and what follows from them.
struct Group {
  const uint8_t* data;  // the payload
  uint32_t payload;     // its index
  uint32_t head, tail;  // bytes before and behind the vectors; both zero but in the first group
  uint32_t tail_at;     // where the tail begins
  uint32_t vector;      // this lane's first vector of the group
  uint32_t vector_end;
  uint32_t first_warp;  // of those that share the payload
  uint32_t sharers;
  bool collect;  // the tile ends with this group
  bool finish;   // this warp's part of the payload ends with it
  bool valid;    // false behind the last group
};

// Walks the groups of one warp's share.
class Walk {
 public:
  __device__ Walk(const Arguments& args, const Shares& shares, uint32_t warp)
      : args_(args), shares_(shares) {
    payloads_ = reinterpret_cast<const PayloadDescriptor*>(args.header + 1);
    payload_count_ = args.header->payload_count;
    lane_ = threadIdx.x % 32;
    begin_ = shares.Begin(warp);
    end_ = shares.Begin(warp + 1);
    warp_ = warp;
    index_ = FindPayload();
    FetchDescriptors();
  }

  __device__ Group Next() {
    if (round_ == round_end_ && !OpenPayload()) {
      Group none = {};
      return none;
    }
    Group group;
    group.data = data_;
    group.payload = open_;
    group.head = group.tail = 0;
    group.tail_at = head_ + vectors_ * 16;
    if (edges_due_) {
      group.head = head_;
      group.tail = tail_;
      edges_due_ = false;
    }
    group.vector = round_ * 32 + lane_;
    const uint32_t rounds = min(kGroupRounds, round_end_ - round_);
    round_ += rounds;
    group.vector_end = min(round_ * 32, vectors_);
    group.first_warp = first_warp_;
    group.sharers = sharers_;
    group.finish = round_ == round_end_;
    ++tile_groups_;
    group.collect = group.finish || tile_groups_ == kTileGroups;
    if (group.collect) tile_groups_ = 0;
    group.valid = true;
    return group;
  }

  __device__ uint32_t head() const { return head_; }

 private:
  // The last payload that starts at or before this share.
  __device__ uint32_t FindPayload() const {
    uint32_t low = 0, high = payload_count_;  // start[low] <= begin_ < start[high]
    if (high > 32) {
      // Payloads of one size are found at the first try.
      const auto guess = static_cast<uint32_t>(uint64_t{begin_} * high / shares_.units);
      const uint32_t from = min(guess > 16 ? guess - 16 : 0, high - 32);
      const uint32_t below = __ballot_sync(kAllLanes, payloads_[from + lane_].start <= begin_);
      if (below != 0) {
        low = from + 31 - __clz(static_cast<int>(below));
        if (below != kAllLanes) high = low + 1;
      } else {
        high = from;
      }
    }
    while (high - low > 1) {
      const uint32_t step = (high - low + 31) / 32;
      const uint32_t probe = low + lane_ * step;
      const bool at_or_before = probe < high && payloads_[probe].start <= begin_;
      const uint32_t below = __ballot_sync(kAllLanes, at_or_before);
      const uint32_t last = 31 - __clz(static_cast<int>(below | 1));
      low += last * step;
      high = min(high, low + step);
    }
    return low;
  }

  // Lane i holds the descriptor of payload fetched_ + i.
  __device__ void FetchDescriptors() {
    fetched_ = index_;
    const uint32_t mine = min(index_ + lane_, payload_count_ - 1);
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(payloads_ + mine));
    offset_low_ = raw.x;
    offset_high_ = raw.y;
    bytes_ = raw.z;
    start_ = raw.w;
  }

  // Goes on to the next payload of which this warp has a part; false behind the last.
  __device__ bool OpenPayload() {
    while (index_ < payload_count_) {
      if (index_ - fetched_ == 32) FetchDescriptors();
      const uint32_t source = index_ - fetched_;
      const uint32_t bytes = __shfl_sync(kAllLanes, bytes_, source);
      const uint32_t start = __shfl_sync(kAllLanes, start_, source);
      if (start >= end_) return false;
      const uint64_t offset = uint64_t{__shfl_sync(kAllLanes, offset_high_, source)} << 32 |
                              __shfl_sync(kAllLanes, offset_low_, source);
      open_ = index_++;
      if (TakePart(bytes, start)) {
        data_ = args_.input + offset;
        const Cut cut(data_, bytes);
        head_ = cut.head;
        vectors_ = cut.vectors;
        tail_ = cut.tail;
        return true;
      }
    }
    return false;
  }

  // Sets this warp's rounds of the payload; false when it has none.
  __device__ bool TakePart(uint32_t bytes, uint32_t start) {
    const uint32_t rounds = RoundsOf(bytes);
    const uint32_t first_unit = start + kPayloadOverheadUnits;
    if (rounds <= kWholeRounds || (begin_ <= start && first_unit + rounds <= end_)) {
      if (start < begin_) return false;
      round_ = 0;
      round_end_ = max(rounds, 1U);
      edges_due_ = true;
      sharers_ = 1;
      first_warp_ = warp_;
      return true;
    }
    round_ = begin_ > first_unit ? min(begin_ - first_unit, rounds) : 0;
    round_end_ = end_ > first_unit ? min(end_ - first_unit, rounds) : 0;
    if (round_ >= round_end_) {
      round_ = round_end_ = 0;
      return false;
    }
    edges_due_ = round_ == 0;
    first_warp_ = shares_.WarpOf(first_unit);
    sharers_ = shares_.WarpOf(first_unit + rounds - 1) - first_warp_ + 1;
    return true;
  }

  const Arguments& args_;
  const Shares shares_;
  const PayloadDescriptor* payloads_;
  uint32_t payload_count_, lane_, warp_, begin_, end_;
  uint32_t index_;    // next payload to open
  uint32_t fetched_;  // payload whose descriptor lane 0 holds
  uint32_t offset_low_, offset_high_, bytes_, start_;
  // The open payload.
  uint32_t open_ = 0, round_ = 0, round_end_ = 0, tile_groups_ = 0;
  uint32_t head_ = 0, vectors_ = 0, tail_ = 0, first_warp_ = 0, sharers_ = 1;
  const uint8_t* data_ = nullptr;
  bool edges_due_ = false;
};

// All tables of the block. Named here, not passed: its address is a constant of the instructions.
extern __shared__ __align__(16) uint8_t tables[];

// What a group's loads bring.
struct Loaded {
  uint4 vectors[kGroupRounds];
  uint32_t edge;  // one byte of head or tail
};

// Lanes 0 to 15 take the head's bytes, 16 to 31 the tail's.
__device__ inline bool HasEdge(const Group& group, uint32_t lane) {
  return lane < 16 ? lane < group.head : lane - 16 < group.tail;
}

__device__ inline void Load(const Group& group, uint32_t lane, uint32_t head, Loaded& loaded) {
  if (!group.valid) return;
  const auto* const vectors = reinterpret_cast<const uint4*>(group.data + head);
#pragma unroll
  for (uint32_t j = 0; j < kGroupRounds; ++j) {
    const uint32_t i = group.vector + j * 32;
    if (i < group.vector_end) loaded.vectors[j] = LoadStreaming(vectors + i);
  }
  if ((group.head | group.tail) != 0 && HasEdge(group, lane)) {
    loaded.edge = LoadByteStreaming(group.data + (lane < 16 ? lane : group.tail_at + lane - 16));
  }
}

// A warp's table, and what its lane has collected.
class Counter {
 public:
  __device__ Counter(uint32_t warp_in_block, uint32_t lane) {
    const uint32_t pair = warp_in_block / 2;
    const uint32_t parity = warp_in_block % 2;
    // The address is pair << 15 | value << 8 | parity << 7 | lane << 2; pair's lowest bit shares a
    // byte with the value.
    pair_bit_ = pair % 2 * 0x80808080U;
    base_ = (pair / 2) << 16 | parity << 7 | lane << 2;
    row_ = tables + pair * kPairBytes + parity * 128 + lane * 256;
    chunk_ = lane % 8 * 16;
  }

  __device__ void Clear() {
#pragma unroll 4
    for (uint32_t j = 0; j < 4; ++j) {
      for (uint32_t c = 0; c < 8; ++c) {
        *reinterpret_cast<uint4*>(row_ + j * 32 * 256 + (c * 16 ^ chunk_)) = make_uint4(0, 0, 0, 0);
      }
    }
    __syncwarp();
  }

  __device__ void CountVector(const uint4& vector) {
    CountWord(vector.x);
    CountWord(vector.y);
    CountWord(vector.z);
    CountWord(vector.w);
  }

  __device__ void CountByte(uint32_t value) { CountAt<0>((value & 0x7F) | pair_bit_, value); }

  // Adds what was counted since the last time to low[] and high[], where low[j] and high[j] are of
  // values 32 * j + lane and 128 + 32 * j + lane.
  __device__ void Collect(uint32_t (&low)[4], uint32_t (&high)[4]) {
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) {
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
    __syncwarp();
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
    atomicAdd(reinterpret_cast<uint32_t*>(tables + offset), addend);
  }

  uint8_t* row_;
  uint32_t pair_bit_, base_, chunk_;
  uint32_t sums_[4] = {};
};

__device__ inline void Count(const Group& group, const Loaded& loaded, uint32_t lane,
                             Counter& counter) {
#pragma unroll
  for (uint32_t j = 0; j < kGroupRounds; ++j) {
    if (group.vector + j * 32 < group.vector_end) counter.CountVector(loaded.vectors[j]);
  }
  if ((group.head | group.tail) != 0 && HasEdge(group, lane)) counter.CountByte(loaded.edge);
}

// Writes the row, or adds to the payload's slot; whoever comes last there writes the row.
__device__ inline void WriteRow(const Arguments& args, const Group& group, uint32_t lane,
                                uint32_t (&low)[4], uint32_t (&high)[4]) {
  uint32_t* const row = args.rows + uint64_t{group.payload} * kByteValues + lane;
  if (group.sharers > 1) {
    uint32_t* const slot = args.clean.slots[group.first_warp].counts + lane;
    for (uint32_t j = 0; j < 4; ++j) {
      atomicAdd(slot + j * 32, low[j]);
      atomicAdd(slot + 128 + j * 32, high[j]);
    }
    __threadfence();
    __syncwarp();
    uint32_t ticket = 0;
    if (lane == 0) ticket = atomicAdd(args.clean.tickets + group.first_warp, 1U);
    ticket = __shfl_sync(kAllLanes, ticket, 0);
    if (ticket != group.sharers - 1) return;
    __threadfence();
    for (uint32_t j = 0; j < 4; ++j) {
      low[j] = __ldcg(slot + j * 32);
      high[j] = __ldcg(slot + 128 + j * 32);
      slot[j * 32] = slot[128 + j * 32] = 0;
    }
    if (lane == 0) args.clean.tickets[group.first_warp] = 0;
  }
#pragma unroll
  for (uint32_t j = 0; j < 4; ++j) {
    row[j * 32] = low[j];
    row[128 + j * 32] = high[j];
  }
}

__device__ inline void SignalFinished(const Arguments& args, uint32_t warps, uint32_t lane) {
  __threadfence_system();
  __syncwarp();
  if (lane != 0 || atomicAdd(args.clean.finished_warps, 1U) != warps - 1) return;
  *args.clean.finished_warps = 0;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(args.flag) = args.header->flag_value;
}

__global__ void __launch_bounds__(kWarpsMax * 32, 1)
    WarpBatchKernelOf(const __grid_constant__ Arguments args) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp_in_block = threadIdx.x / 32;
  // Neighbouring shares go to different multiprocessors.
  const uint32_t warp = warp_in_block * gridDim.x + blockIdx.x;
  for (uint32_t i = warp * 32 + lane; i < args.rows_to_zero * kByteValues;
       i += gridDim.x * blockDim.x) {
    args.next_rows[i] = 0;
  }
  const uint32_t units = args.header->units;
  const Shares shares = {units, min(units, gridDim.x * (blockDim.x / 32))};
  if (warp >= shares.warps) return;

  Walk walk(args, shares, warp);
  Loaded current_loaded, next_loaded;
  Group current = walk.Next();
  Load(current, lane, walk.head(), current_loaded);
  Counter counter(warp_in_block, lane);
  counter.Clear();
  uint32_t low[4] = {}, high[4] = {};
  while (current.valid) {
    const Group next = walk.Next();
    Load(next, lane, walk.head(), next_loaded);
    Count(current, current_loaded, lane, counter);
    if (current.collect) counter.Collect(low, high);
    if (current.finish) {
      WriteRow(args, current, lane, low, high);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) low[j] = high[j] = 0;
    }
    current = next;
    current_loaded = next_loaded;
  }
  if (args.flag != nullptr) SignalFinished(args, shares.warps, lane);
}

class WarpBatchKernel final : public CudaKernel {
 public:
  absl::string_view name() const override { return "warp_batch"; }
  absl::string_view summary() const override {
    return "many payloads a launch: equal shares of a batch per warp, a table of counters per warp";
  }
  bool batches() const override { return true; }
  bool has_flag() const override { return true; }
  bool zeroes_next_rows() const override { return true; }
  uint64_t clean_bytes(const DeviceTraits& device) const override {
    return uint64_t{WarpsMax(device)} * (sizeof(Slot) + sizeof(uint32_t)) + 128;
  }

  absl::Status Prepare(const DeviceTraits& device) const override {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(WarpBatchKernelOf, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(BlockWarpsMax(device) / 2 * kPairBytes)));
    return absl::OkStatus();
  }

  absl::Status Enqueue(const Launch& launch) const override {
    const DeviceTraits& device = *launch.device;
    // Small launches spread over multiprocessors first, two warps a block.
    uint32_t pairs = std::max(1U, launch.units / (2 * kUnitsPerWarp));
    if (launch.blocks_max != 0) pairs = std::min(pairs, launch.blocks_max);
    uint32_t blocks = pairs, block_pairs = 1;
    if (pairs > device.multiprocessors) {
      blocks = device.multiprocessors;
      block_pairs = std::min(BlockWarpsMax(device) / 2, (pairs - 1) / blocks + 1);
    }
    const uint32_t warps_max = WarpsMax(device);
    auto* const clean = static_cast<uint8_t*>(launch.clean);
    const Arguments args = {
        .input = launch.input,
        .header = launch.header,
        .rows = launch.rows,
        .next_rows = launch.next_rows,
        .rows_to_zero = launch.rows_to_zero,
        .clean = {.finished_warps = reinterpret_cast<uint32_t*>(clean),
                  .tickets =
                      reinterpret_cast<uint32_t*>(clean + 128 + uint64_t{warps_max} * sizeof(Slot)),
                  .slots = reinterpret_cast<Slot*>(clean + 128)},
        .flag = launch.flag,
    };
    WarpBatchKernelOf<<<blocks, block_pairs * 64, block_pairs * kPairBytes, launch.stream>>>(args);
    HISTOGRAM_RETURN_IF_ERROR(LaunchStatus(name()));
    return EnqueueFoldRows(launch);
  }

 private:
  // Even: tables come in pairs. At least 2: every supported device has 64 KiB.
  static uint32_t BlockWarpsMax(const DeviceTraits& device) {
    return std::clamp(device.shared_bytes_max / kPairBytes * 2, 2U, kWarpsMax);
  }
  static uint32_t WarpsMax(const DeviceTraits& device) {
    return device.multiprocessors * BlockWarpsMax(device);
  }
};

}  // namespace

const CudaKernel& WarpBatch() {
  static const WarpBatchKernel kernel;
  return kernel;
}

}  // namespace histogram::cuda
