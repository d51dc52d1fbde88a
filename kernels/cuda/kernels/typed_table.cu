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
constexpr uint32_t kCopiesMax = 16;
constexpr uint32_t kLineWords = 32;
// Counters of a block are u32: a launch gives no block more samples than that.
constexpr uint64_t kBlockSamplesMax = uint64_t{1} << 31;

// --- Samples

// A sample as it lies in memory, and how it is widened to the type it is compared in.
template <typename Raw, typename C>
struct Plain {
  using Bits = Raw;
  using Compare = C;
  __device__ static C Widen(Raw bits) { return static_cast<C>(bits); }
};
struct Float32 : Plain<float, float> {};
struct Float16 {
  using Bits = uint16_t;
  using Compare = float;
  __device__ static float Widen(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
};
struct Bfloat16 {
  using Bits = uint16_t;
  using Compare = float;
  __device__ static float Widen(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
};

// --- From a sample to its slot

template <typename C>
struct Part {
  TypedBins<C> bins;
  uint32_t first = 0, size = 0;  // the bins of this launch
  uint32_t copies_log2 = 0;
  uint32_t table_words = 0;        // of all copies, whole lines
  uint32_t shared_thresholds = 0;  // so many behind the table; 0: they stay where they are
  const void* samples = nullptr;
  uint64_t count = 0;
  unsigned long long* counts = nullptr;
};

__device__ inline float Magic(float) { return 12582912.0F; }
__device__ inline double Magic(double) { return 6755399441055744.0; }
__device__ inline int32_t LowBits(float x) { return __float_as_int(x) - 0x4B400000; }
__device__ inline int32_t LowBits(double x) { return __double2loint(x); }

// The bin of a sample in [lower, upper], searched between the candidates of its cell.
template <typename C>
__device__ inline int32_t Search(const TypedBins<C>& bins, const C* thresholds, C x) {
  if constexpr (std::is_floating_point_v<C>) x += C{0};  // -0.0
  const auto cell =
      static_cast<uint32_t>((internal::KeyOf(x) - internal::KeyOf(bins.lower)) >> bins.cell_shift);
  uint32_t low = __ldg(bins.candidates + cell), high = __ldg(bins.candidates + cell + 1);
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (x >= thresholds[middle]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return static_cast<int32_t>(low);
}

// The slot of a sample that is outside, or so close to an edge that its threshold decides.
template <typename C>
__device__ inline int32_t SlotByThreshold(const TypedBins<C>& bins, const C* thresholds, C x,
                                          int32_t k, bool upper_half) {
  const auto outside = static_cast<int32_t>(bins.bins);
  if (x < bins.lower) return outside;
  if (x > bins.upper) return outside + 1;
  if (x != x) return outside + 2;
  const int32_t candidate = k + (upper_half ? 1 : 0);
  const bool reached = candidate < static_cast<int32_t>(bins.reached) && x >= thresholds[candidate];
  return reached ? candidate : candidate - 1;
}

template <bool kGuess, typename C>
__device__ inline int32_t SlotOf(const TypedBins<C>& bins, const C* thresholds, C x) {
  if constexpr (kGuess) {
    using Guess = typename TypedBins<C>::Guess;
    const Guess f = Position<C>(x, bins.lower, bins.scale, bins.offset);
    const Guess rounded = f + Magic(Guess{});
    const Guess rest = f - (rounded - Magic(Guess{}));
    const int32_t k = LowBits(rounded);
    if (x >= bins.lower && x <= bins.upper && abs(rest) < bins.sure) return k;
    return SlotByThreshold(bins, thresholds, x, k, rest >= Guess{0});
  } else {
    const auto outside = static_cast<int32_t>(bins.bins);
    if (!bins.none && x >= bins.lower && x <= bins.upper) return Search(bins, thresholds, x);
    if (bins.all_below || x < bins.lower) return outside;
    return x >= bins.lower ? outside + 1 : outside + 2;
  }
}

// --- The table

__device__ inline uint32_t Permuted(uint32_t word) { return word ^ ((word >> 5) & 31U); }

template <bool kParts, typename C>
__device__ inline void Add(uint32_t* table, const Part<C>& part, int32_t slot, uint32_t copy) {
  auto local = static_cast<uint32_t>(slot);
  if constexpr (kParts) {
    if (local >= part.bins.bins) {
      if (part.first != 0) return;
      local = part.size + (local - part.bins.bins);
    } else {
      local -= part.first;
      if (local >= part.size) return;
    }
  }
  atomicAdd(&table[Permuted((local << part.copies_log2) + copy)], 1U);
}

template <typename S, bool kGuess, bool kParts>
__device__ inline void AddVector(uint32_t* table, const Part<typename S::Compare>& part,
                                 const typename S::Compare* thresholds, const uint4& vector,
                                 uint32_t copy) {
  constexpr uint32_t kSamples = 16 / sizeof(typename S::Bits);
  typename S::Bits samples[kSamples];
  memcpy(samples, &vector, sizeof(samples));
#pragma unroll
  for (uint32_t i = 0; i < kSamples; ++i) {
    Add<kParts>(table, part, SlotOf<kGuess>(part.bins, thresholds, S::Widen(samples[i])), copy);
  }
}

// kLoads: 16-byte loads in flight in each thread.
template <typename S, bool kGuess, bool kParts, uint32_t kLoads>
__global__ void __launch_bounds__(kThreads, kLoads == 2 ? 2 : 1)
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
  const uint32_t copy = threadIdx.x & ((1U << part.copies_log2) - 1);

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
      AddVector<S, kGuess, kParts>(table, part, thresholds, loaded[j], copy);
    }
  }
  for (; i < vectors; i += stride) {
    AddVector<S, kGuess, kParts>(table, part, thresholds, LoadStreaming(vector + i), copy);
  }
  if (blockIdx.x == 0 && threadIdx.x < head + tail) {
    const uint64_t at = threadIdx.x < head ? threadIdx.x : threadIdx.x + vectors * kSamples;
    Add<kParts>(table, part, SlotOf<kGuess>(part.bins, thresholds, S::Widen(samples[at])), copy);
  }
  __syncthreads();

  // Each block begins at another line: the additions of all blocks come at about the same time.
  const uint32_t slots = part.size + kOutsideSlots;
  const uint32_t rotation = blockIdx.x * kLineWords % slots;
  for (uint32_t n = threadIdx.x; n < slots; n += kThreads) {
    const uint32_t slot = n + rotation < slots ? n + rotation : n + rotation - slots;
    uint32_t sum = 0;
    for (uint32_t c = 0; c < 1U << part.copies_log2; ++c) {
      sum += table[Permuted((slot << part.copies_log2) + c)];
    }
    if (sum == 0) continue;
    const uint32_t at = slot < part.size ? part.first + slot : part.bins.bins + (slot - part.size);
    atomicAdd(&part.counts[at], static_cast<unsigned long long>(sum));
  }
}

// --- Launching

uint32_t WholeLines(uint64_t words) {
  return static_cast<uint32_t>((words + kLineWords - 1) / kLineWords * kLineWords);
}

// How a device's shared memory is used for a number of bins.
struct Layout {
  uint32_t parts = 1, part_bins = 0, copies_log2 = 0, blocks = 1;  // blocks: of a multiprocessor
  bool shared_thresholds = false;
};

Layout LayoutFor(uint32_t bins, uint32_t threshold_bytes, const DeviceTraits& device) {
  const uint32_t of_one = device.shared_bytes_max;
  const uint32_t of_two =
      std::min(of_one, device.shared_bytes_multiprocessor / 2 - device.shared_bytes_reserved);
  const auto table_bytes = [](uint32_t part_bins, uint32_t copies) {
    return uint64_t{WholeLines(uint64_t{part_bins + kOutsideSlots} * copies)} * 4;
  };
  Layout layout;
  layout.part_bins = bins;
  while (table_bytes(layout.part_bins, 1) > of_one) {
    ++layout.parts;
    layout.part_bins = (bins + layout.parts - 1) / layout.parts;
  }
  const uint64_t thresholds = uint64_t{bins} * threshold_bytes;
  uint64_t room = of_one;
  if (table_bytes(layout.part_bins, 1) <= of_two) {
    layout.blocks = 2;
    room = of_two;
  }
  layout.shared_thresholds = table_bytes(layout.part_bins, 1) + thresholds <= room;
  if (layout.shared_thresholds) room -= thresholds;
  while (2U << layout.copies_log2 <= kCopiesMax &&
         table_bytes(layout.part_bins, 2U << layout.copies_log2) <= room) {
    ++layout.copies_log2;
  }
  return layout;
}

template <typename S, bool kGuess, bool kParts, uint32_t kLoads>
absl::Status LaunchPart(const Part<typename S::Compare>& part, uint32_t blocks,
                        uint32_t shared_bytes, cudaStream_t stream) {
  auto* const kernel = TypedTableKernel<S, kGuess, kParts, kLoads>;
  // As each launch needs it: the attribute is of the kernel and of the current device.
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  kernel<<<blocks, kThreads, shared_bytes, stream>>>(part);
  return LaunchStatus("typed_table");
}

template <typename S, bool kGuess, bool kParts>
absl::Status LaunchAll(const TypedLaunch& launch, const TypedBins<typename S::Compare>& bins,
                       const Layout& layout) {
  using C = typename S::Compare;
  constexpr uint64_t kSize = sizeof(typename S::Bits);
  Part<C> part;
  part.bins = bins;
  part.copies_log2 = layout.copies_log2;
  part.shared_thresholds = layout.shared_thresholds ? bins.reached : 0;
  part.counts = launch.counts;
  const uint64_t most_blocks = uint64_t{layout.blocks} * launch.device->multiprocessors;
  for (uint32_t p = 0; p < layout.parts; ++p) {
    part.first = p * layout.part_bins;
    part.size = std::min(layout.part_bins, bins.bins - part.first);
    part.table_words = WholeLines(uint64_t{part.size + kOutsideSlots} << part.copies_log2);
    const auto shared_bytes =
        static_cast<uint32_t>(part.table_words * 4 + part.shared_thresholds * sizeof(C));
    for (uint64_t done = 0; done < launch.count; done += part.count) {
      part.samples = static_cast<const typename S::Bits*>(launch.samples) + done;
      part.count = std::min(launch.count - done, most_blocks * kBlockSamplesMax);
      // A block is worth its table from a few loads a thread on.
      const uint64_t wanted = part.count * kSize / (kThreads * 16 * 2) + 1;
      const auto blocks = static_cast<uint32_t>(std::min(wanted, most_blocks));
      HISTOGRAM_RETURN_IF_ERROR(
          layout.blocks == 2
              ? (LaunchPart<S, kGuess, kParts, 2>(part, blocks, shared_bytes, launch.stream))
              : (LaunchPart<S, kGuess, kParts, 4>(part, blocks, shared_bytes, launch.stream)));
    }
  }
  return absl::OkStatus();
}

template <typename S>
absl::Status EnqueueAs(const TypedLaunch& launch, const TypedBins<typename S::Compare>& bins) {
  const Layout layout = LayoutFor(bins.bins, sizeof(typename S::Compare), *launch.device);
  if (bins.sure > 0) {
    return layout.parts == 1 ? LaunchAll<S, true, false>(launch, bins, layout)
                             : LaunchAll<S, true, true>(launch, bins, layout);
  }
  return layout.parts == 1 ? LaunchAll<S, false, false>(launch, bins, layout)
                           : LaunchAll<S, false, true>(launch, bins, layout);
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
      return EnqueueAs<Float32>(launch, bins);
  }
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<double>& bins) {
  return EnqueueAs<Plain<double, double>>(launch, bins);
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<uint32_t>& bins) {
  switch (launch.type) {
    case SampleType::kU8:
      return EnqueueAs<Plain<uint8_t, uint32_t>>(launch, bins);
    case SampleType::kU16:
      return EnqueueAs<Plain<uint16_t, uint32_t>>(launch, bins);
    default:
      return EnqueueAs<Plain<uint32_t, uint32_t>>(launch, bins);
  }
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<int32_t>& bins) {
  switch (launch.type) {
    case SampleType::kI8:
      return EnqueueAs<Plain<int8_t, int32_t>>(launch, bins);
    case SampleType::kI16:
      return EnqueueAs<Plain<int16_t, int32_t>>(launch, bins);
    default:
      return EnqueueAs<Plain<int32_t, int32_t>>(launch, bins);
  }
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<uint64_t>& bins) {
  return EnqueueAs<Plain<uint64_t, uint64_t>>(launch, bins);
}
template <>
absl::Status EnqueueTyped(const TypedLaunch& launch, const TypedBins<int64_t>& bins) {
  return EnqueueAs<Plain<int64_t, int64_t>>(launch, bins);
}

}  // namespace histogram::cuda
