// Counts typed samples into a table of u32 in shared memory, one a block.
//
// The table has a few copies where bins are few, side by side, so that threads that meet in one bin
// meet in different words. Words are permuted within their line of 32 by the number of the line:
// bins that are multiples of 32 lie in different banks.
//
// Bins that do not fit into shared memory are counted in parts: each launch reads all samples and
// counts those of its bins. Samples outside all bins are counted with the first part.
//
// One block fills a multiprocessor: with 64 registers a thread has four loads in flight and the
// positions of four samples, which two blocks of 32 registers have not.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/typed.h"
#include "kernels/cuda/kernels/typed_find.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// One block of 1,024 threads with 64 registers reads f64 at 96 % of the ceiling; two with 32 spill,
// and read it at 57 (H200, d727295).
constexpr uint32_t kThreads = 1024;
constexpr uint32_t kLoads = 4;  // of 16 bytes, in flight in each thread; not measured apart
constexpr uint32_t kLineWords = 32;
// Counters of a block are u32: a launch gives no block more samples than that.
constexpr uint64_t kBlockSamplesMax = uint64_t{1} << 31;

template <typename C>
struct Part {
  TypedBins<C> bins;
  uint32_t first = 0, size = 0;                      // the bins of this launch
  uint32_t copies = 1;                               // a power of two
  uint32_t table_words = 0;                          // of all copies, whole lines
  uint32_t shared_thresholds = 0, shared_cells = 0;  // so many behind the table, or 0
  const void* samples = nullptr;
  uint64_t count = 0;
  unsigned long long* counts = nullptr;
  HandOver hand_over;
};

// --- The table

// Counts the samples of one thread.
template <typename S, FindBy kBy, bool kParts>
class Counter {
 public:
  using C = typename S::Compare;
  using Bits = typename S::Bits;
  static constexpr uint32_t kSize = sizeof(Bits);
  static constexpr uint32_t kSamples = 16 / kSize;

  // `table`: whole lines.
  __device__ Counter(const Part<C>& part, const Rule<C>& rule, uint32_t* table)
      : part_(part),
        rule_(rule),
        stride_(part.copies * 4),
        permutation_(part.copies == kLineWords ? 0 : 0x7C),
        table_(static_cast<uint32_t>(__cvta_generic_to_shared(table))),
        copy_(table_ + (threadIdx.x & (part.copies - 1)) * 4) {}

  __device__ void AddVector(const uint4& vector) const {
    Bits bits[kSamples];
    memcpy(bits, &vector, sizeof(bits));
#pragma unroll
    for (uint32_t i = 0; i < kSamples; i += kGroup) AddGroup<kGroup>(bits + i);
  }

  __device__ void AddOne(Bits bits) const { AddGroup<1>(&bits); }

  // In all copies.
  __device__ uint32_t Sum(uint32_t slot) const {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < part_.copies; ++c) {
      uint32_t value;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(Address(slot, table_ + c * 4)));
      sum += value;
    }
    return sum;
  }

 private:
  // Samples are settled together, so that the usual case branches once for all of them.
  static constexpr uint32_t kGroup = kSamples < 4 ? kSamples : 4;

  // Words are permuted within their line: bins that are multiples of 32 lie in different banks, and
  // where the instructions last, those that are multiples of 1024 too.
  __device__ uint32_t Address(uint32_t slot, uint32_t copy) const {
    const uint32_t byte = slot * stride_ + copy;
    uint32_t line = byte >> 5;
    if constexpr (kSize >= 4) line ^= byte >> 10;
    return byte ^ (line & permutation_);
  }

  __device__ void Increment(uint32_t slot) const {
    asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(Address(slot, copy_)));
  }

  template <uint32_t kCount>
  __device__ void AddGroup(const Bits* bits) const {
    C samples[kCount];
    uint32_t slots[kCount];
    bool sure = true;
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      samples[i] = S::Widen(bits[i]);
      slots[i] = Find<kBy, kSize == 4>(rule_, samples[i], sure);
    }
    if (!sure) {
#pragma unroll
      for (uint32_t i = 0; i < kCount; ++i) {
        slots[i] = Settle<kBy>(rule_, samples[i], slots[i]);
        // Samples outside are counted with the first part, behind its bins.
        if (kParts && slots[i] >= part_.bins.bins) {
          if (part_.first == 0) Increment(part_.size + (slots[i] - part_.bins.bins));
          slots[i] = kNone;
        }
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t slot = kParts ? slots[i] - part_.first : slots[i];
      if (!kParts || slot < part_.size) Increment(slot);
    }
  }

  static constexpr uint32_t kNone = ~0U;  // in no part

  const Part<C>& part_;
  const Rule<C> rule_;
  const uint32_t stride_;       // bytes of all copies of a counter
  const uint32_t permutation_;  // 0: each thread of a warp has a copy and with it a bank
  const uint32_t table_;        // shared address
  const uint32_t copy_;         // of this thread's copy of slot 0
};

// The last block to come here moves the row to the host. A fence of one thread holds for all
// threads that met it at a barrier.
__device__ inline void MoveRow(const HandOver& to, unsigned long long* counts, uint32_t slots) {
  __shared__ uint32_t ticket;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    ticket = atomicAdd(to.tickets, 1U);
    __threadfence();
  }
  __syncthreads();
  if (ticket != gridDim.x - 1) return;
  for (uint32_t slot = threadIdx.x; slot < slots; slot += kThreads) {
    to.row[slot] = __ldcg(counts + slot);
    counts[slot] = 0;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  *to.tickets = 0;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(to.flag) = to.value;
}

template <typename S, FindBy kBy, bool kParts>
__global__ void __launch_bounds__(kThreads, 1)
    TypedTableKernel(const __grid_constant__ Part<typename S::Compare> part) {
  using C = typename S::Compare;
  extern __shared__ __align__(128) uint32_t table[];
  C* const thresholds = reinterpret_cast<C*>(table + part.table_words);
  auto* const cells = reinterpret_cast<uint16_t*>(thresholds + part.shared_thresholds);
  for (uint32_t i = threadIdx.x; i < part.table_words; i += kThreads) table[i] = 0;
  for (uint32_t i = threadIdx.x; i < part.shared_thresholds; i += kThreads) {
    thresholds[i] = ThresholdOf(part.bins, i);
  }
  for (uint32_t i = threadIdx.x; i < part.shared_cells; i += kThreads)
    cells[i] = part.bins.cells[i];
  __syncthreads();
  const Rule<C> rule{part.bins, part.shared_thresholds != 0 ? thresholds : part.bins.thresholds,
                     part.shared_cells != 0 ? cells : part.bins.cells};
  const Counter<S, kBy, kParts> counter(part, rule, table);

  ForSamples<kThreads, kLoads>(
      static_cast<const typename S::Bits*>(part.samples), part.count,
      [&](const uint4& vector) { counter.AddVector(vector); },
      [&](typename S::Bits bits, uint64_t) { counter.AddOne(bits); });
  __syncthreads();

  // Each block begins at another line: the additions of all blocks come at about the same time.
  const uint32_t slots = part.size + kOutsideSlots;
  const uint32_t rotation = blockIdx.x * kLineWords % slots;
  for (uint32_t n = threadIdx.x; n < slots; n += kThreads) {
    const uint32_t slot = n + rotation < slots ? n + rotation : n + rotation - slots;
    const uint32_t sum = counter.Sum(slot);
    if (sum == 0) continue;
    const uint32_t at = slot < part.size ? part.first + slot : part.bins.bins + (slot - part.size);
    atomicAdd(&part.counts[at], static_cast<unsigned long long>(sum));
  }
  if (!kParts && part.hand_over.row != nullptr) MoveRow(part.hand_over, part.counts, slots);
}

// --- Launching

uint32_t WholeLines(uint64_t words) {
  return static_cast<uint32_t>((words + kLineWords - 1) / kLineWords * kLineWords);
}

// A sample in the last bin is compared with the threshold behind it, which is none (kCells).
template <typename C>
uint32_t ThresholdsRead(const TypedBins<C>& bins) {
  switch (bins.by) {
    case FindBy::kFloor:
    case FindBy::kWideFloor:
    case FindBy::kLine:
      return 0;
    case FindBy::kCells:
      return bins.reached + 1;
    default:
      return bins.reached;
  }
}

// How a device's shared memory is used for a number of bins.
struct Layout {
  uint32_t parts = 1, part_bins = 0, copies = 1;
  bool shared_rule = false;
};

uint64_t TableBytes(uint32_t bins, uint32_t copies) {
  return uint64_t{WholeLines(uint64_t{bins + kOutsideSlots} * copies)} * 4;
}

// `rule_bytes`: of thresholds and cells, as far as the kernel looks at them; 0: it does not.
Layout LayoutFor(uint32_t bins, uint64_t rule_bytes, uint32_t copies_max,
                 const DeviceTraits& device) {
  Layout layout;
  layout.parts = TableParts(bins, device);
  layout.part_bins = (bins + layout.parts - 1) / layout.parts;
  uint64_t room = TableRoom(device);
  layout.shared_rule = rule_bytes > 0 && TableBytes(layout.part_bins, 1) + rule_bytes <= room;
  if (layout.shared_rule) room -= rule_bytes;
  while (2 * layout.copies <= copies_max &&
         TableBytes(layout.part_bins, 2 * layout.copies) <= room) {
    layout.copies *= 2;
  }
  return layout;
}

template <typename S, FindBy kBy, bool kParts>
absl::Status LaunchAll(const TypedLaunch& launch, const TypedBins<typename S::Compare>& bins,
                       const Layout& layout) {
  using C = typename S::Compare;
  constexpr uint64_t kSize = sizeof(typename S::Bits);
  Part<C> part;
  part.bins = bins;
  part.copies = layout.copies;
  // A copy takes longer to clear and to add than a sample to count.
  const uint64_t share = launch.count / launch.device->multiprocessors;
  while (part.copies > 1 && uint64_t{layout.part_bins} * part.copies > share) part.copies /= 2;
  part.shared_thresholds = layout.shared_rule ? ThresholdsRead(bins) : 0;
  part.shared_cells = layout.shared_rule && bins.by == FindBy::kCells ? bins.cell_count + 1 : 0;
  part.counts = launch.counts;
  part.hand_over = launch.hand_over;
  const uint64_t most_blocks = launch.device->multiprocessors;
  for (uint32_t p = 0; p < layout.parts; ++p) {
    part.first = p * layout.part_bins;
    part.size = std::min(layout.part_bins, bins.bins - part.first);
    part.table_words = WholeLines(uint64_t{part.size + kOutsideSlots} * part.copies);
    const auto shared_bytes =
        static_cast<uint32_t>(part.table_words * 4 + part.shared_thresholds * sizeof(C) +
                              part.shared_cells * sizeof(uint16_t));
    for (uint64_t done = 0; done < launch.count; done += part.count) {
      part.samples = static_cast<const typename S::Bits*>(launch.samples) + done;
      part.count = std::min(launch.count - done, most_blocks * kBlockSamplesMax);
      // A block is worth its table from a load a thread on.
      const uint64_t wanted = part.count * kSize / (kThreads * 16) + 1;
      const auto blocks = static_cast<uint32_t>(std::min(wanted, most_blocks));
      TypedTableKernel<S, kBy, kParts><<<blocks, kThreads, shared_bytes, launch.stream>>>(part);
      HISTOGRAM_RETURN_IF_ERROR(LaunchStatus("typed_table"));
    }
  }
  return absl::OkStatus();
}

// Calls `run` for the kernel that finds bins as these are found.
template <typename S, typename Run>
absl::Status VisitKernel(const TypedBins<typename S::Compare>& bins, bool has_parts,
                         const Run& run) {
  return VisitRule<S>(bins.by, [&]<FindBy kBy>() {
    return has_parts ? run.template operator()<kBy, true>() : run.template operator()<kBy, false>();
  });
}

}  // namespace

uint32_t TableRoom(const DeviceTraits& device) { return device.shared_bytes_max - kLineWords * 4; }

uint32_t TableParts(uint32_t bins, const DeviceTraits& device) {
  uint32_t parts = 1;
  while (TableBytes((bins + parts - 1) / parts, 1) > TableRoom(device)) ++parts;
  return parts;
}

absl::Status EnqueueTable(const TypedLaunch& launch, const AnyTypedBins& any_bins) {
  return VisitSamples(launch.type, any_bins, [&]<typename S>(S, const auto& bins) {
    // Each thread of a warp has a copy where samples leave no time for conflicts of banks.
    const uint32_t copies_max = sizeof(typename S::Bits) < 4 ? 32 : 16;
    uint64_t rule_bytes = ThresholdsRead(bins) * sizeof(typename S::Compare);
    if (bins.by == FindBy::kCells) rule_bytes += (bins.cell_count + 1) * sizeof(uint16_t);
    const Layout layout = LayoutFor(bins.bins, rule_bytes, copies_max, *launch.device);
    return VisitKernel<S>(bins, layout.parts > 1, [&]<FindBy kBy, bool kParts>() {
      return LaunchAll<S, kBy, kParts>(launch, bins, layout);
    });
  });
}

absl::Status PrepareTable(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device) {
  return VisitSamples(type, bins, [&]<typename S>(S, const auto& typed) {
    return VisitKernel<S>(typed, TableParts(typed.bins, device) > 1,
                          [&]<FindBy kBy, bool kParts>() {
                            return AllowShared(TypedTableKernel<S, kBy, kParts>, TableRoom(device));
                          });
  });
}

}  // namespace histogram::cuda
