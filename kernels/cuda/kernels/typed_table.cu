// Counts typed samples into a table of u32 in shared memory, one a block.
//
// The table has a few copies where bins are few, side by side, so that threads that meet in one bin
// meet in different words. Words are permuted within their line of 32 by the number of the line:
// bins that are multiples of 32 lie in different banks.
//
// What does not fit into shared memory is counted in parts: each launch reads all samples and
// counts those of its bins. Samples outside all bins are counted with the first part.
//
// A bin's address comes from the bits of a float: 1.5 * 2^23 added to f leaves the nearest integer
// in the low bits (1.5 * 2^52 for a double). Neither a conversion nor a rounding instruction is
// needed, of which a multiprocessor has a quarter of the rate.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kLoads = 4;  // of 16 bytes, in flight in each thread
constexpr uint32_t kLineWords = 32;
// Counters of a block are u32: a launch gives no block more samples than that.
constexpr uint64_t kBlockSamplesMax = uint64_t{1} << 31;

// --- Samples

// A sample as it lies in memory, and how it is widened to the type it is compared in. Integers have
// become keys by then.
template <typename Raw, typename C>
struct Plain {
  using Bits = Raw;
  using Compare = C;
  __device__ static C Widen(Raw bits, C base) {
    if constexpr (std::is_floating_point_v<C>) return bits;
    return static_cast<C>(bits) + base;
  }
};
struct Float16 {
  using Bits = uint16_t;
  using Compare = float;
  __device__ static float Widen(uint16_t bits, float) {
    return __half2float(__ushort_as_half(bits));
  }
};
struct Bfloat16 {
  using Bits = uint16_t;
  using Compare = float;
  __device__ static float Widen(uint16_t bits, float) {
    return __uint_as_float(uint32_t{bits} << 16);
  }
};

// --- From a sample to its slot

template <typename C>
struct Part {
  TypedBins<C> bins;
  uint32_t first = 0, size = 0;  // the bins of this launch
  // Keys: words of samples are xor'ed with these, then `base` is added to a sample.
  uint32_t flip_even = 0, flip_odd = 0;
  C base = {};
  uint32_t copies = 1;             // a power of two
  uint32_t table_words = 0;        // of all copies, whole lines
  uint32_t shared_thresholds = 0;  // so many behind the table; 0: they stay where they are
  const void* samples = nullptr;
  uint64_t count = 0;
  unsigned long long* counts = nullptr;
};

__device__ inline float Magic(float) { return 12582912.0F; }
__device__ inline double Magic(double) { return 6755399441055744.0; }
__device__ inline uint32_t LowBits(float x) { return __float_as_uint(x) - 0x4B400000U; }
__device__ inline uint32_t LowBits(double x) { return static_cast<uint32_t>(__double2loint(x)); }

// The bin of a sample in [lower, upper], searched between the candidates of its cell.
template <typename C>
__device__ inline uint32_t Search(const TypedBins<C>& bins, const C* thresholds, C x) {
  if constexpr (std::is_floating_point_v<C>) x += C{0};  // -0.0
  const auto cell =
      static_cast<uint32_t>((internal::KeyOf(x) - internal::KeyOf(bins.lower)) >> bins.cell_shift);
  uint32_t low = __ldg(bins.candidates + cell);
  // Most cells hold no more than one threshold.
  if (low + 1 >= bins.reached || !(x >= thresholds[low + 1])) return low;
  ++low;
  if (low + 1 >= bins.reached || !(x >= thresholds[low + 1])) return low;
  uint32_t high = __ldg(bins.candidates + cell + 1);
  for (++low; low < high;) {
    const uint32_t middle = (low + high + 1) / 2;
    if (x >= thresholds[middle]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The slot of any sample by a rule that may be slow. `found`: what Find said.
template <FindBy kBy, typename C>
__device__ inline uint32_t Settle(const TypedBins<C>& bins, const C* thresholds, C x,
                                  uint32_t found) {
  if (bins.all_below || x < bins.lower) return bins.bins + internal::kBelowSlot;
  if (bins.none || !(x <= bins.upper)) {
    return bins.bins + (x >= bins.lower ? internal::kAboveSlot : internal::kNanSlot);
  }
  if constexpr (kBy == FindBy::kCells) {
    return Search(bins, thresholds, x);
  } else if constexpr (kBy == FindBy::kGuess) {
    using Guess = typename TypedBins<C>::Guess;
    const Guess f = Position<C>(x, bins.lower, bins.scale, bins.offset);
    const Guess rest = f - ((f + Magic(Guess{})) - Magic(Guess{}));
    const uint32_t candidate = found + (rest >= Guess{0} ? 1 : 0);
    return candidate < bins.reached && x >= thresholds[candidate] ? candidate : candidate - 1;
  } else {
    return min(found, bins.reached - 1);
  }
}

// The bin of a sample; clears `sure` where only Settle knows.
template <FindBy kBy, bool kWide, typename C>
__device__ inline uint32_t Find(const TypedBins<C>& bins, C x, bool& sure) {
  if constexpr (kBy == FindBy::kFloor) {
    uint32_t bin;
    if constexpr (sizeof(C) == 8) {
      bin = LowBits(__dadd_rd(__fma_rd(x, bins.scale, bins.offset), Magic(x)));
      // The low bits of a double alone do not tell.
      sure = sure && x >= bins.lower && x <= bins.upper;
    } else {
      bin = LowBits(__fadd_rd(__fmaf_rd(x, bins.scale, bins.offset), Magic(x)));
    }
    sure = sure && bin < bins.reached;
    return bin;
  } else if constexpr (kBy == FindBy::kLine) {
    const uint32_t from = x - bins.lower;
    sure = sure && from <= bins.sure_span;
    return LineBin<kWide>(from, bins.slope, bins.intercept);
  } else if constexpr (kBy == FindBy::kGuess) {
    using Guess = typename TypedBins<C>::Guess;
    const Guess f = Position<C>(x, bins.lower, bins.scale, bins.offset);
    const Guess rounded = f + Magic(Guess{});
    const Guess rest = f - (rounded - Magic(Guess{}));
    sure = sure && x >= bins.lower && x <= bins.upper && abs(rest) < bins.sure;
    return LowBits(rounded);
  } else {
    sure = false;
    return 0;
  }
}

// --- The table

// Bins that are multiples of 32 lie in different banks, and where the instructions last, those that
// are multiples of 1024 too.
template <bool kFar, typename C>
__device__ inline uint32_t* Counter(uint32_t* table, const Part<C>& part, uint32_t slot,
                                    uint32_t copy) {
  const uint32_t byte = (slot * part.copies + copy) * 4;
  uint32_t line = byte >> 5;
  if constexpr (kFar) line ^= byte >> 10;
  return reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(table) + (byte ^ (line & 0x7CU)));
}

// Counts a sample by its slot. A slot of kNone, as one of another part, is not counted.
constexpr uint32_t kNone = ~0U;
template <bool kFar, bool kParts, typename C>
__device__ inline void Add(uint32_t* table, const Part<C>& part, uint32_t slot, uint32_t copy) {
  if constexpr (kParts) {
    slot -= part.first;
    if (slot >= part.size) return;
  }
  atomicAdd(Counter<kFar>(table, part, slot, copy), 1U);
}

// Settle, but samples outside are counted here where there are parts, with the first of them.
template <FindBy kBy, bool kFar, bool kParts, typename C>
__device__ inline uint32_t SettleOrCount(uint32_t* table, const Part<C>& part, const C* thresholds,
                                         C x, uint32_t found, uint32_t copy) {
  const uint32_t slot = Settle<kBy>(part.bins, thresholds, x, found);
  if constexpr (kParts) {
    if (slot >= part.bins.bins) {
      if (part.first == 0) {
        atomicAdd(Counter<kFar>(table, part, part.size + (slot - part.bins.bins), copy), 1U);
      }
      return kNone;
    }
  }
  return slot;
}

// Whether there are instructions to spare for the banks: two for each sample.
template <typename S>
constexpr bool kFar = sizeof(typename S::Bits) >= 4;

// Samples are settled together, so that the usual case branches once for all of them.
constexpr uint32_t kGroupMax = 4;

template <typename S, FindBy kBy, bool kParts>
__device__ inline void AddVector(uint32_t* table, const Part<typename S::Compare>& part,
                                 const typename S::Compare* thresholds, uint4 vector,
                                 uint32_t copy) {
  using C = typename S::Compare;
  constexpr uint32_t kSamples = 16 / sizeof(typename S::Bits);
  constexpr uint32_t kGroup = kSamples < kGroupMax ? kSamples : kGroupMax;
  if constexpr (std::is_integral_v<C>) {
    vector.x ^= part.flip_even;
    vector.y ^= part.flip_odd;
    vector.z ^= part.flip_even;
    vector.w ^= part.flip_odd;
  }
  typename S::Bits samples[kSamples];
  memcpy(samples, &vector, sizeof(samples));
#pragma unroll
  for (uint32_t i = 0; i < kSamples; i += kGroup) {
    uint32_t slots[kGroup];
    bool sure = true;
#pragma unroll
    for (uint32_t j = 0; j < kGroup; ++j) {
      slots[j] = Find<kBy, sizeof(typename S::Bits) == 4>(
          part.bins, S::Widen(samples[i + j], part.base), sure);
    }
    if (!sure) {
#pragma unroll
      for (uint32_t j = 0; j < kGroup; ++j) {
        const C x = S::Widen(samples[i + j], part.base);
        slots[j] = SettleOrCount<kBy, kFar<S>, kParts>(table, part, thresholds, x, slots[j], copy);
      }
    }
#pragma unroll
    for (uint32_t j = 0; j < kGroup; ++j) Add<kFar<S>, kParts>(table, part, slots[j], copy);
  }
}

template <typename S, FindBy kBy, bool kParts>
__global__ void __launch_bounds__(kThreads, 1)
    TypedTableKernel(const __grid_constant__ Part<typename S::Compare> part) {
  using C = typename S::Compare;
  extern __shared__ __align__(16) uint32_t table[];
  C* const shared_thresholds = reinterpret_cast<C*>(table + part.table_words);
  for (uint32_t i = threadIdx.x; i < part.table_words; i += kThreads) table[i] = 0;
  for (uint32_t i = threadIdx.x; i < part.shared_thresholds; i += kThreads) {
    shared_thresholds[i] = part.bins.thresholds[i];
  }
  __syncthreads();
  const C* const thresholds =
      part.shared_thresholds != 0 ? shared_thresholds : part.bins.thresholds;
  const uint32_t copy = threadIdx.x & (part.copies - 1);

  constexpr uint32_t kSize = sizeof(typename S::Bits);
  constexpr uint32_t kSamples = 16 / kSize;
  const auto* const samples = static_cast<const typename S::Bits*>(part.samples);
  const auto misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(samples) % 16);
  const uint64_t head = min(uint64_t{(16 - misaligned) % 16 / kSize}, part.count);
  const uint64_t vectors = (part.count - head) / kSamples;
  const uint64_t tail = part.count - head - vectors * kSamples;
  const auto* const vector = reinterpret_cast<const uint4*>(samples + head);
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoads - 1) * stride < vectors; i += kLoads * stride) {
    uint4 loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) loaded[j] = LoadStreaming(vector + i + j * stride);
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      AddVector<S, kBy, kParts>(table, part, thresholds, loaded[j], copy);
    }
  }
#pragma unroll 1
  for (; i < vectors; i += stride) {
    AddVector<S, kBy, kParts>(table, part, thresholds, LoadStreaming(vector + i), copy);
  }
  if (blockIdx.x == 0 && threadIdx.x < head + tail) {
    const uint64_t at = threadIdx.x < head ? threadIdx.x : threadIdx.x + vectors * kSamples;
    typename S::Bits bits = samples[at];
    if constexpr (std::is_integral_v<C>) {
      bits = static_cast<typename S::Bits>(
          bits ^ (kSize == 8 ? uint64_t{part.flip_odd} << 32 : uint64_t{part.flip_even}));
    }
    const C x = S::Widen(bits, part.base);
    bool sure = true;
    uint32_t slot = Find<kBy, kSize == 4>(part.bins, x, sure);
    if (!sure) {
      slot = SettleOrCount<kBy, kFar<S>, kParts>(table, part, thresholds, x, slot, copy);
    }
    Add<kFar<S>, kParts>(table, part, slot, copy);
  }
  __syncthreads();

  // Each block begins at another line: the additions of all blocks come at about the same time.
  const uint32_t slots = part.size + kOutsideSlots;
  const uint32_t rotation = blockIdx.x * kLineWords % slots;
  for (uint32_t n = threadIdx.x; n < slots; n += kThreads) {
    const uint32_t slot = n + rotation < slots ? n + rotation : n + rotation - slots;
    uint32_t sum = 0;
    for (uint32_t c = 0; c < part.copies; ++c) sum += *Counter<kFar<S>>(table, part, slot, c);
    if (sum == 0) continue;
    const uint32_t at = slot < part.size ? part.first + slot : part.bins.bins + (slot - part.size);
    atomicAdd(&part.counts[at], static_cast<unsigned long long>(sum));
  }
}

// --- Launching

uint32_t WholeLines(uint64_t words) {
  return static_cast<uint32_t>((words + kLineWords - 1) / kLineWords * kLineWords);
}

// Times the flipped bit of a sample: that bit of each sample of a word.
template <uint32_t kSize>
constexpr uint64_t kFlipRepeat = kSize == 1   ? 0x01010101
                                 : kSize == 2 ? 0x00010001
                                              : 1;

// How a device's shared memory is used for a number of bins.
struct Layout {
  uint32_t parts = 1, part_bins = 0, copies = 1;
  bool shared_thresholds = false;
};

// `threshold_bytes`: of all thresholds, as far as the kernel looks at them; 0: it does not.
Layout LayoutFor(uint32_t bins, uint64_t threshold_bytes, uint32_t copies_max,
                 const DeviceTraits& device) {
  const auto table_bytes = [](uint32_t part_bins, uint32_t copies) {
    return uint64_t{WholeLines(uint64_t{part_bins + kOutsideSlots} * copies)} * 4;
  };
  Layout layout;
  layout.part_bins = bins;
  uint64_t room = device.shared_bytes_max;
  while (table_bytes(layout.part_bins, 1) > room) {
    ++layout.parts;
    layout.part_bins = (bins + layout.parts - 1) / layout.parts;
  }
  layout.shared_thresholds =
      threshold_bytes > 0 && table_bytes(layout.part_bins, 1) + threshold_bytes <= room;
  if (layout.shared_thresholds) room -= threshold_bytes;
  while (2 * layout.copies <= copies_max &&
         table_bytes(layout.part_bins, 2 * layout.copies) <= room) {
    layout.copies *= 2;
  }
  return layout;
}

template <typename S, FindBy kBy, bool kParts>
absl::Status LaunchPart(const Part<typename S::Compare>& part, uint32_t blocks,
                        uint32_t shared_bytes, cudaStream_t stream) {
  auto* const kernel = TypedTableKernel<S, kBy, kParts>;
  // As each launch needs it: the attribute is of the kernel and of the current device.
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  kernel<<<blocks, kThreads, shared_bytes, stream>>>(part);
  return LaunchStatus("typed_table");
}

template <typename S, FindBy kBy, bool kParts>
absl::Status LaunchAll(const TypedLaunch& launch, const TypedBins<typename S::Compare>& bins,
                       const Layout& layout) {
  using C = typename S::Compare;
  constexpr uint64_t kSize = sizeof(typename S::Bits);
  Part<C> part;
  part.bins = bins;
  part.copies = layout.copies;
  if constexpr (std::is_integral_v<C>) {
    const uint64_t flip = KeyFlip(launch.type);
    part.flip_odd = static_cast<uint32_t>(kSize == 8 ? flip >> 32 : flip * kFlipRepeat<kSize>);
    part.flip_even = kSize == 8 ? 0 : part.flip_odd;
    part.base = KeyBase<C>(launch.type);
  }
  part.shared_thresholds = layout.shared_thresholds ? bins.reached : 0;
  part.counts = launch.counts;
  const uint64_t most_blocks = launch.device->multiprocessors;
  for (uint32_t p = 0; p < layout.parts; ++p) {
    part.first = p * layout.part_bins;
    part.size = std::min(layout.part_bins, bins.bins - part.first);
    part.table_words = WholeLines(uint64_t{part.size + kOutsideSlots} * part.copies);
    const auto shared_bytes =
        static_cast<uint32_t>(part.table_words * 4 + part.shared_thresholds * sizeof(C));
    for (uint64_t done = 0; done < launch.count; done += part.count) {
      part.samples = static_cast<const typename S::Bits*>(launch.samples) + done;
      part.count = std::min(launch.count - done, most_blocks * kBlockSamplesMax);
      // A block is worth its table from a few loads a thread on.
      const uint64_t wanted = part.count * kSize / (kThreads * 16 * 2) + 1;
      const auto blocks = static_cast<uint32_t>(std::min(wanted, most_blocks));
      HISTOGRAM_RETURN_IF_ERROR(
          (LaunchPart<S, kBy, kParts>(part, blocks, shared_bytes, launch.stream)));
    }
  }
  return absl::OkStatus();
}

template <typename S>
absl::Status EnqueueAs(const TypedLaunch& launch, const TypedBins<typename S::Compare>& bins) {
  using C = typename S::Compare;
  // Each thread of a warp has a copy where samples leave no time for conflicts of banks.
  const uint32_t copies_max = sizeof(typename S::Bits) < 4 ? 32 : 16;
  const bool looks = bins.by == FindBy::kGuess || bins.by == FindBy::kCells;
  const Layout layout = LayoutFor(bins.bins, looks ? uint64_t{bins.reached} * sizeof(C) : 0,
                                  copies_max, *launch.device);
  const auto launch_by = [&]<FindBy kBy>() {
    return layout.parts == 1 ? LaunchAll<S, kBy, false>(launch, bins, layout)
                             : LaunchAll<S, kBy, true>(launch, bins, layout);
  };
  if constexpr (std::is_floating_point_v<C>) {
    if (bins.by == FindBy::kFloor) return launch_by.template operator()<FindBy::kFloor>();
  }
  if constexpr (std::is_same_v<C, uint32_t>) {
    if (bins.by == FindBy::kLine) return launch_by.template operator()<FindBy::kLine>();
  } else if constexpr (sizeof(typename S::Bits) >= 4) {
    if (bins.by == FindBy::kGuess) return launch_by.template operator()<FindBy::kGuess>();
  }
  return launch_by.template operator()<FindBy::kCells>();
}

}  // namespace

template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<float>& bins) {
  switch (launch.type) {
    case SampleType::kF16:
      return EnqueueAs<Float16>(launch, bins);
    case SampleType::kBf16:
      return EnqueueAs<Bfloat16>(launch, bins);
    default:
      return EnqueueAs<Plain<float, float>>(launch, bins);
  }
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<double>& bins) {
  return EnqueueAs<Plain<double, double>>(launch, bins);
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<uint32_t>& bins) {
  switch (SampleBytes(launch.type)) {
    case 1:
      return EnqueueAs<Plain<uint8_t, uint32_t>>(launch, bins);
    case 2:
      return EnqueueAs<Plain<uint16_t, uint32_t>>(launch, bins);
    default:
      return EnqueueAs<Plain<uint32_t, uint32_t>>(launch, bins);
  }
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<uint64_t>& bins) {
  return EnqueueAs<Plain<uint64_t, uint64_t>>(launch, bins);
}

}  // namespace histogram::cuda
