// Counts typed samples into more bins than a few tables in shared memory hold: each sample is read
// once.
//
// Slots are cut into buckets of 32,768, a table each. The first kernel takes tiles of samples, puts
// the slots of a tile in the order of their buckets and writes the 15 low bits of each. The second
// one counts the slots of a bucket in shared memory. A bucket gets blocks by its share of the
// samples, and its blocks stride over the tiles: constant or sorted data keeps all blocks as busy
// as other data does.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/typed.h"
#include "kernels/cuda/kernels/typed_find.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// A bucket's table takes 128 KiB of shared memory: one of twice as many slots fits no block.
// Smaller ones were not measured.
constexpr uint32_t kBucketBits = 15;
constexpr uint32_t kBucketSlots = 1U << kBucketBits;
constexpr uint32_t kBinsMax = 1U << 24;
constexpr uint32_t kBucketsMax = (kBinsMax + kOutsideSlots + kBucketSlots - 1) / kBucketSlots;
// Larger tiles write longer stretches to a bucket, and take more shared memory. Not measured apart.
constexpr uint32_t kScatterThreads = 512;
constexpr uint32_t kEach = 16;  // samples of a tile for each thread
constexpr uint32_t kTile = kScatterThreads * kEach;
constexpr uint32_t kCountThreads = 1024;
constexpr uint32_t kWarps = kCountThreads / 32;
constexpr uint32_t kNoBucket = ~0U;

// What lies in the workspace, for up to so many tiles.
struct Workspace {
  uint16_t* slots;   // the low bits, tile by tile
  uint16_t* starts;  // for each tile where each bucket begins, and behind it the tile's samples
  uint32_t* totals;  // samples of each bucket
  uint32_t tiles, buckets;
};

uint64_t TileBytes(uint32_t buckets) { return (kTile + buckets + 1) * sizeof(uint16_t); }
uint64_t TotalsBytes(uint32_t buckets) { return (buckets * sizeof(uint32_t) + 15) / 16 * 16; }
uint32_t BucketsOf(uint32_t bins) {
  return (bins + kOutsideSlots + kBucketSlots - 1) / kBucketSlots;
}

template <typename C>
struct Scatter {
  TypedBins<C> bins;
  Workspace to;
  const void* samples = nullptr;
  uint64_t count = 0;
};

// How many samples of the block were in this bucket before. All threads of the warp call it. Where
// all of them are in one bucket, as constant and sorted data are, one adds for all.
__device__ inline uint32_t RankIn(uint32_t* counters, uint32_t bucket, uint32_t thread) {
  int same = 0;
  __match_all_sync(kAllThreads, bucket, &same);
  if (same == 0) return bucket != kNoBucket ? atomicAdd(&counters[bucket], 1U) : 0;
  uint32_t before = 0;
  if (thread == 0 && bucket != kNoBucket) before = atomicAdd(&counters[bucket], 32U);
  return __shfl_sync(kAllThreads, before, 0) + thread;
}

// The sums of all before, by the first warp; what is behind `count` is the sum of all.
__device__ inline void ScanByFirstWarp(const uint32_t* counters, uint32_t count, uint32_t* starts) {
  const uint32_t thread = threadIdx.x;
  uint32_t before = 0;
  for (uint32_t i = thread; i - thread < count; i += 32) {
    const uint32_t own = i < count ? counters[i] : 0;
    uint32_t sum = own;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(kAllThreads, sum, step);
      if (thread >= step) sum += other;
    }
    if (i < count) starts[i] = before + sum - own;
    before += __shfl_sync(kAllThreads, sum, 31);
  }
  if (thread == 0) starts[count] = before;
}

template <typename S>
__global__ void __launch_bounds__(kScatterThreads, 2)
    ScatterKernel(const __grid_constant__ Scatter<typename S::Compare> args) {
  using Bits = typename S::Bits;
  __shared__ __align__(16) uint16_t staged[kTile];
  __shared__ uint32_t counters[kBucketsMax], starts[kBucketsMax + 1];
  const Rule<typename S::Compare> rule{args.bins, args.bins.thresholds, args.bins.cells};
  const uint32_t buckets = args.to.buckets, thread = threadIdx.x % 32;
  const auto* const samples = static_cast<const Bits*>(args.samples);
  for (uint32_t tile = blockIdx.x; tile < args.to.tiles; tile += gridDim.x) {
    for (uint32_t b = threadIdx.x; b < buckets; b += kScatterThreads) counters[b] = 0;
    __syncthreads();
    const uint64_t first = uint64_t{tile} * kTile + threadIdx.x;
    Bits loaded[kEach];
#pragma unroll
    for (uint32_t j = 0; j < kEach; ++j) {
      const uint64_t i = first + j * kScatterThreads;
      loaded[j] = i < args.count ? samples[i] : Bits{};
    }
    uint32_t slots[kEach], ranks[kEach];
#pragma unroll
    for (uint32_t j = 0; j < kEach; ++j) {
      const bool valid = first + j * kScatterThreads < args.count;
      slots[j] = SlotOf<S>(rule, S::Widen(loaded[j]));
      ranks[j] = RankIn(counters, valid ? slots[j] >> kBucketBits : kNoBucket, thread);
    }
    __syncthreads();
    if (threadIdx.x < 32) ScanByFirstWarp(counters, buckets, starts);
    __syncthreads();
#pragma unroll
    for (uint32_t j = 0; j < kEach; ++j) {
      if (first + j * kScatterThreads >= args.count) continue;
      staged[starts[slots[j] >> kBucketBits] + ranks[j]] =
          static_cast<uint16_t>(slots[j] % kBucketSlots);
    }
    uint16_t* const begins = args.to.starts + uint64_t{tile} * (buckets + 1);
    for (uint32_t b = threadIdx.x; b <= buckets; b += kScatterThreads) {
      begins[b] = static_cast<uint16_t>(starts[b]);
      if (b < buckets && counters[b] != 0) atomicAdd(&args.to.totals[b], counters[b]);
    }
    __syncthreads();
    auto* const out = reinterpret_cast<uint4*>(args.to.slots + uint64_t{tile} * kTile);
    const auto* const vectors = reinterpret_cast<const uint4*>(staged);
    for (uint32_t v = threadIdx.x; v < kTile / 8; v += kScatterThreads) out[v] = vectors[v];
  }
}

struct Gather {
  Workspace from;
  uint64_t count = 0;         // samples of all tiles
  uint32_t share_blocks = 0;  // that many blocks are divided by the buckets' shares
  unsigned long long* counts = nullptr;
};

// Which bucket a block counts, and which part of how many.
struct Assigned {
  uint32_t bucket, part, parts;
};
__device__ inline Assigned Assign(const Gather& args, const uint32_t* totals) {
  uint32_t left = blockIdx.x;
  for (uint32_t b = 0; b < args.from.buckets; ++b) {
    const auto parts = static_cast<uint32_t>(
        (uint64_t{totals[b]} * args.share_blocks + args.count - 1) / args.count);
    if (left < parts) return {b, left, parts};
    left -= parts;
  }
  return {kNoBucket, 0, 0};
}

// Slots that are multiples of 32 or of 1024 lie in different banks. Its own inverse.
__device__ inline uint32_t Permuted(uint32_t slot) {
  return slot ^ ((slot >> 5 ^ slot >> 10) & 31);
}

// Counts a bucket's samples of a tile, a warp together.
__device__ inline void CountStretch(const uint16_t* slots, uint32_t begin, uint32_t end,
                                    uint32_t thread, uint32_t* table) {
  constexpr uint32_t kLoads = 8;  // in flight; not measured apart
  for (uint32_t i = begin + thread; i - thread < end; i += 32 * kLoads) {
    uint32_t loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * 32 < end) loaded[j] = slots[i + j * 32];
    }
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * 32 < end) atomicAdd(&table[Permuted(loaded[j])], 1U);
    }
  }
}

__global__ void __launch_bounds__(kCountThreads, 1)
    GatherKernel(const __grid_constant__ Gather args) {
  extern __shared__ uint32_t table[];
  __shared__ uint32_t totals[kBucketsMax];
  __shared__ Assigned shared;
  for (uint32_t b = threadIdx.x; b < args.from.buckets; b += kCountThreads) {
    totals[b] = args.from.totals[b];
  }
  for (uint32_t i = threadIdx.x; i < kBucketSlots; i += kCountThreads) table[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0) shared = Assign(args, totals);
  __syncthreads();
  const Assigned own = shared;
  if (own.bucket == kNoBucket) return;

  const uint32_t thread = threadIdx.x % 32;
  const uint32_t workers = own.parts * kWarps, worker = own.part * kWarps + threadIdx.x / 32;
  for (uint32_t tile = worker; tile < args.from.tiles; tile += 32 * workers) {
    // A thread finds the stretch of a tile; then the warp counts one after the other.
    const uint64_t mine = tile + uint64_t{thread} * workers;
    uint32_t begin = 0, end = 0;
    if (mine < args.from.tiles) {
      const uint16_t* const begins = args.from.starts + mine * (args.from.buckets + 1) + own.bucket;
      begin = begins[0];
      end = begins[1];
    }
    for (int turn = 0; turn < 32; ++turn) {
      const uint64_t its_tile = tile + uint64_t{static_cast<uint32_t>(turn)} * workers;
      CountStretch(args.from.slots + its_tile * kTile, __shfl_sync(kAllThreads, begin, turn),
                   __shfl_sync(kAllThreads, end, turn), thread, table);
    }
  }
  __syncthreads();
  for (uint32_t n = threadIdx.x; n < kBucketSlots; n += kCountThreads) {
    // The blocks of a bucket begin at different places.
    const uint32_t word = (n + own.part * (kBucketSlots / 8)) % kBucketSlots;
    if (table[word] == 0) continue;
    atomicAdd(&args.counts[own.bucket * kBucketSlots + Permuted(word)],
              static_cast<unsigned long long>(table[word]));
  }
}

absl::Status EnqueuePortion(const TypedLaunch& launch, const AnyTypedBins& bins,
                            const Workspace& workspace) {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(
      cudaMemsetAsync(workspace.totals, 0, workspace.buckets * sizeof(uint32_t), launch.stream));
  const uint32_t multiprocessors = launch.device->multiprocessors;
  HISTOGRAM_RETURN_IF_ERROR(VisitSamples(launch.type, bins, [&]<typename S>(S, const auto& typed) {
    Scatter<typename S::Compare> scatter;
    scatter.bins = typed;
    scatter.to = workspace;
    scatter.samples = launch.samples;
    scatter.count = launch.count;
    const uint32_t blocks = std::min(workspace.tiles, 2 * multiprocessors);
    ScatterKernel<S><<<blocks, kScatterThreads, 0, launch.stream>>>(scatter);
    return LaunchStatus("typed_partition");
  }));
  Gather gather;
  gather.from = workspace;
  gather.count = launch.count;
  // Each bucket has a part of a block more than its share: all blocks together run at once.
  gather.share_blocks = 2 * workspace.buckets < multiprocessors
                            ? multiprocessors - workspace.buckets
                            : multiprocessors;
  gather.counts = launch.counts;
  constexpr uint32_t kTableBytes = kBucketSlots * sizeof(uint32_t);
  HISTOGRAM_RETURN_IF_ERROR(AllowShared(GatherKernel, kTableBytes));
  GatherKernel<<<gather.share_blocks + workspace.buckets, kCountThreads, kTableBytes,
                 launch.stream>>>(gather);
  return LaunchStatus("typed_partition");
}

}  // namespace

uint64_t PartitionBytes(uint32_t bins, uint64_t samples) {
  const uint32_t buckets = BucketsOf(bins);
  return TotalsBytes(buckets) + (samples + kTile - 1) / kTile * TileBytes(buckets);
}

absl::Status EnqueuePartition(const TypedLaunch& launch, const AnyTypedBins& bins) {
  const uint32_t buckets = BucketsOf(BinCount(bins));
  const uint64_t tiles_max = (launch.workspace_bytes - TotalsBytes(buckets)) / TileBytes(buckets);
  auto* const at = static_cast<uint8_t*>(launch.workspace);
  Workspace workspace;
  workspace.buckets = buckets;
  workspace.totals = reinterpret_cast<uint32_t*>(at);
  workspace.slots = reinterpret_cast<uint16_t*>(at + TotalsBytes(buckets));
  workspace.starts = workspace.slots + tiles_max * kTile;
  TypedLaunch portion = launch;
  const auto* const samples = static_cast<const uint8_t*>(launch.samples);
  for (uint64_t done = 0; done < launch.count; done += portion.count) {
    portion.samples = samples + done * SampleBytes(launch.type);
    portion.count = std::min({launch.count - done, tiles_max * kTile, kPartitionSamplesMax});
    workspace.tiles = static_cast<uint32_t>((portion.count + kTile - 1) / kTile);
    HISTOGRAM_RETURN_IF_ERROR(EnqueuePortion(portion, bins, workspace));
  }
  return absl::OkStatus();
}

}  // namespace histogram::cuda
