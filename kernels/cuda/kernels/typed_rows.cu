// Counts rows of typed samples, all in one launch: a block has a table in shared memory for the
// row, or for the piece of a row, that it counts.
//
// Even bins that need no plan have a kernel of their own, for rows of one channel: a block has the
// thresholds of the row, too. For the row's own range it reads it twice, the second time from L2.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/extent.cuh"
#include "kernels/cuda/kernels/typed_find.cuh"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// More threads leave more of them idle at a short row's end; fewer hide less of the memory's
// latency. Not measured apart. 4,096 rows of 4,096 f32 into 256 even bins take 45 us over one
// range, 58 over their own (H200, 78dfbe7).
constexpr uint32_t kThreads = 512, kEvenThreads = 256;
constexpr uint64_t kBlocksOfMultiprocessor = 4, kEvenBlocksOfMultiprocessor = 8;
constexpr uint64_t kBlocksMax = 65536;
constexpr uint32_t kLoads = 4;
constexpr uint32_t kWarpRows = 8;  // rows of a block whose entropy is computed, a warp each
// A row is cut into pieces where rows are few, but not into shorter ones: a piece clears and adds
// up a table of its own. Not measured apart.
constexpr uint64_t kPieceSamplesMin = 16384;

template <typename C>
struct Rows {
  TypedBins<C> bins;
  RowsLaunch launch;
  uint32_t pieces = 1;  // of each row
};

// The samples of a unit of work; of one channel they follow each other.
template <typename Bits>
struct Piece {
  uint64_t row;
  const Bits* samples;
  uint64_t count;

  // kOneChannel: and no begins.
  template <bool kOneChannel>
  __device__ static Piece Of(const RowsLaunch& launch, uint64_t unit, uint32_t pieces) {
    const uint64_t row = unit / pieces;
    const uint64_t stretch = kOneChannel ? row : row / launch.channels;
    uint64_t begin = stretch * launch.step, end = min(begin + launch.window, launch.pixels);
    if (!kOneChannel && launch.begins != nullptr) {
      begin = launch.begins[stretch];
      end = launch.begins[stretch + 1];
    } else if (launch.payloads != nullptr) {
      begin = launch.payloads[stretch].offset / sizeof(Bits);
      end = begin + launch.payloads[stretch].bytes / sizeof(Bits);
    }
    const uint64_t share = (end - begin + pieces - 1) / pieces;
    const uint64_t first = min(begin + unit % pieces * share, end);
    const uint64_t at = kOneChannel ? first : first * launch.stride + row % launch.channels;
    return {row, static_cast<const Bits*>(launch.samples) + at, min(share, end - first)};
  }
};

// Writes the row that a block counted, or adds the piece of it.
template <typename C>
__device__ inline void WriteRow(const Rows<C>& args, uint64_t row, const uint32_t* table) {
  const uint32_t bins = args.bins.bins;
  for (uint32_t slot = threadIdx.x; slot < bins + kOutsideSlots; slot += blockDim.x) {
    const uint32_t count = table[Permuted(slot)];
    uint32_t* const to = slot < bins ? &args.launch.counts[row * bins + slot]
                                     : &args.launch.outside[row * kOutsideSlots + (slot - bins)];
    if (args.pieces == 1) {
      *to = count;
    } else if (count != 0) {
      atomicAdd(to, count);
    }
  }
}

template <typename S>
__device__ inline void CountPiece(const Rule<typename S::Compare>& rule,
                                  const Rows<typename S::Compare>& args,
                                  const Piece<typename S::Bits>& piece, uint32_t* table) {
  using Bits = typename S::Bits;
  const uint64_t stride = args.launch.stride;
  for (uint64_t i = threadIdx.x; i < piece.count; i += kLoads * kThreads) {
    Bits loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * kThreads < piece.count) loaded[j] = piece.samples[(i + j * kThreads) * stride];
    }
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * kThreads >= piece.count) break;
      atomicAdd(&table[Permuted(SlotOf<S>(rule, S::Widen(loaded[j])))], 1U);
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    TypedRowsKernel(const __grid_constant__ Rows<typename S::Compare> args) {
  extern __shared__ __align__(16) uint32_t table[];
  const RowsLaunch& launch = args.launch;
  const Rule<typename S::Compare> rule{args.bins, args.bins.thresholds, args.bins.cells};
  const uint32_t words = (args.bins.bins + kOutsideSlots + 31) / 32 * 32;
  const uint64_t units = launch.stretches * launch.channels * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const auto piece = Piece<typename S::Bits>::template Of<false>(launch, unit, args.pieces);
    for (uint32_t i = threadIdx.x; i < words; i += kThreads) table[i] = 0;
    __syncthreads();
    CountPiece<S>(rule, args, piece, table);
    __syncthreads();
    WriteRow(args, piece.row, table);
    __syncthreads();
  }
}

// --- Even bins

// Calls add(Bits) for the samples of one block. They stay in L2, for a second look.
template <typename Bits, typename Add>
__device__ inline void ForBlock(const Bits* samples, uint64_t count, const Add& add) {
  ForSamplesOf<kLoads>(
      samples, count, threadIdx.x, kEvenThreads,
      [](const uint4* address) { return __ldg(address); },
      [&](const uint4& vector) { ForVector<Bits>(vector, add); },
      [&](Bits bits, uint64_t) { add(bits); });
}

template <typename S>
__device__ inline auto ExtremesOf(const Piece<typename S::Bits>& piece) {
  Extremes<internal::KeyBits<typename S::Compare>> extremes;
  ForBlock(piece.samples, piece.count,
           [&](typename S::Bits bits) { extremes.Add(ExtentKey(S::Widen(bits))); });
  return OfBlock<kEvenThreads>(extremes);
}

// A double does not hold each integer of 64 bits: with kUp the value is rounded up, else down.
template <bool kUp, typename C>
__device__ inline double ValueOf(C sample) {
  if constexpr (std::is_same_v<C, int64_t>) {
    return kUp ? __ll2double_ru(sample) : __ll2double_rd(sample);
  } else if constexpr (std::is_same_v<C, uint64_t>) {
    return kUp ? __ull2double_ru(sample) : __ull2double_rd(sample);
  } else {
    return sample;
  }
}

// Changes `bins` to those of a row over its own range. Returns their ends.
template <typename C>
__device__ inline RowEnds MakeOwnBins(const Extremes<internal::KeyBits<C>>& extremes,
                                      TypedBins<C>& bins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto least = static_cast<internal::KeyBits<C>>(~extremes.most_below);
  bins.reached = 0;
  bins.lower = internal::OfKey<C>(least);
  bins.upper = internal::OfKey<C>(extremes.greatest);
  double lower = ValueOf<false>(bins.lower);
  double upper = ValueOf<true>(bins.upper);
  const bool equal = bins.lower == bins.upper;
  const bool floats = bins.even.arithmetic == EdgeArithmetic::kFloat;
  if (equal) {
    lower = floats ? static_cast<float>(lower) - 0.5F : lower - 0.5;
    upper = floats ? static_cast<float>(upper) + 0.5F : upper + 0.5;
  }
  if (!(least <= extremes.greatest) || !(lower < upper)) return {nan, nan};
  const uint32_t count = bins.bins;
  bins.even = EvenEdgesOf(lower, upper, count, bins.even.arithmetic);
  if (!AreDistinct(bins.even)) return {nan, nan};
  bins.reached = count;
  // Then a threshold may be no sample.
  if (equal) {
    uint32_t low = 0, high = count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (bins.even.at(middle) <= ValueOf<false>(bins.upper)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    bins.reached = low;
  }
  SetEvenGuess(bins, ValueOf<false>(bins.lower));
  return {lower, bins.even.upper};
}

// The extremes of rows that are cut into pieces; the words are zero before.
template <typename S>
__global__ void __launch_bounds__(kEvenThreads)
    RowExtentKernel(const __grid_constant__ Rows<typename S::Compare> args) {
  const uint64_t units = args.launch.stretches * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const auto piece = Piece<typename S::Bits>::template Of<true>(args.launch, unit, args.pieces);
    const auto extremes = ExtremesOf<S>(piece);
    if (threadIdx.x == 0) {
      auto* const words =
          reinterpret_cast<unsigned long long*>(args.launch.extents) + 2 * piece.row;
      atomicMax(&words[0], static_cast<unsigned long long>(extremes.most_below));
      atomicMax(&words[1], static_cast<unsigned long long>(extremes.greatest));
    }
    __syncthreads();
  }
}

template <typename S>
__global__ void __launch_bounds__(kEvenThreads)
    EvenRowsKernel(const __grid_constant__ Rows<typename S::Compare> args) {
  using C = typename S::Compare;
  using Key = internal::KeyBits<C>;
  constexpr FindBy kBy = sizeof(typename S::Bits) >= 4 ? FindBy::kGuess : FindBy::kKeys;
  extern __shared__ __align__(16) uint32_t table[];
  __shared__ __align__(8) std::byte of_row[sizeof(TypedBins<C>)];
  const RowsLaunch& launch = args.launch;
  const uint32_t words = (args.bins.bins + kOutsideSlots + 31) / 32 * 32;
  C* const thresholds = reinterpret_cast<C*>(table + words);
  const uint64_t units = launch.stretches * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const auto piece = Piece<typename S::Bits>::template Of<true>(launch, unit, args.pieces);
    for (uint32_t i = threadIdx.x; i < words; i += kEvenThreads) table[i] = 0;
    if (launch.own_ranges) {
      Extremes<Key> extremes;
      if (args.pieces == 1) {
        extremes = ExtremesOf<S>(piece);
      } else {
        extremes.most_below = static_cast<Key>(launch.extents[2 * piece.row]);
        extremes.greatest = static_cast<Key>(launch.extents[2 * piece.row + 1]);
      }
      if (threadIdx.x == 0) {
        TypedBins<C> own = args.bins;
        const RowEnds ends = MakeOwnBins(extremes, own);
        memcpy(of_row, &own, sizeof(own));
        if (unit % args.pieces == 0) launch.ends[piece.row] = ends;
      }
      __syncthreads();
    }
    TypedBins<C> bins = args.bins;
    if (launch.own_ranges) memcpy(&bins, of_row, sizeof(bins));
    const bool counted = !launch.own_ranges || bins.reached > 0;
    for (uint32_t i = threadIdx.x; i < bins.reached; i += kEvenThreads) {
      thresholds[i] = ThresholdOf(bins, i);
    }
    __syncthreads();
    const Rule<C> rule{bins, thresholds, nullptr};
    if (counted) {
      ForBlock(piece.samples, piece.count, [&](typename S::Bits bits) {
        atomicAdd(&table[Permuted(SlotBy<kBy, false>(rule, S::Widen(bits)))], 1U);
      });
    }
    __syncthreads();
    WriteRow(args, piece.row, table);
    __syncthreads();
  }
}

// --- Of counts

__global__ void __launch_bounds__(kWarpRows * 32)
    RowEntropyKernel(const uint32_t* counts, uint64_t rows, uint32_t bins, float* entropy) {
  const uint64_t row = uint64_t{blockIdx.x} * kWarpRows + threadIdx.x / 32;
  if (row >= rows) return;
  double total = 0, sum = 0;
  for (uint32_t bin = threadIdx.x % 32; bin < bins; bin += 32) {
    const double count = counts[row * bins + bin];
    if (count == 0) continue;
    total += count;
    sum += count * log2(count);
  }
#pragma unroll
  for (uint32_t step = 16; step > 0; step /= 2) {
    total += __shfl_xor_sync(~0U, total, step);
    sum += __shfl_xor_sync(~0U, sum, step);
  }
  if (threadIdx.x % 32 != 0) return;
  entropy[row] = total == 0 ? 0.0F : static_cast<float>(fmax(0.0, log2(total) - sum / total));
}

__global__ void __launch_bounds__(kEvenThreads)
    WidenKernel(const uint32_t* counts, const uint32_t* outside, uint64_t rows, uint32_t bins,
                uint64_t* wide) {
  const uint32_t slots = bins + kOutsideSlots;
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (uint32_t slot = threadIdx.x; slot < slots; slot += kEvenThreads) {
      wide[row * slots + slot] =
          slot < bins ? counts[row * bins + slot] : outside[row * kOutsideSlots + (slot - bins)];
    }
  }
}

}  // namespace

absl::Status EnqueueRows(const RowsLaunch& launch, const AnyTypedBins& any_bins) {
  const uint64_t rows = launch.stretches * launch.channels;
  if (rows == 0) return absl::OkStatus();
  return VisitSamples(launch.type, any_bins, [&]<typename S>(S, const auto& bins) -> absl::Status {
    using C = typename S::Compare;
    const bool even = bins.even.bins != 0;
    Rows<C> args;
    args.bins = bins;
    args.launch = launch;
    if (launch.stride == 0) args.launch.stride = launch.channels;
    const uint64_t wanted = (even ? kEvenBlocksOfMultiprocessor : kBlocksOfMultiprocessor) *
                            launch.device->multiprocessors;
    const uint64_t pieces_max = launch.longest / kPieceSamplesMin + 1;
    args.pieces = static_cast<uint32_t>(std::clamp<uint64_t>(wanted / rows, 1, pieces_max));
    const auto clear = [&launch](void* words, uint64_t bytes) {
      return ToStatus(cudaMemsetAsync(words, 0, bytes, launch.stream), "cudaMemsetAsync");
    };
    if (args.pieces > 1) {
      HISTOGRAM_RETURN_IF_ERROR(clear(launch.counts, rows * bins.bins * sizeof(uint32_t)));
      HISTOGRAM_RETURN_IF_ERROR(clear(launch.outside, rows * kOutsideSlots * sizeof(uint32_t)));
    }
    const auto blocks = static_cast<uint32_t>(std::min(rows * args.pieces, kBlocksMax));
    if (args.pieces > 1 && launch.own_ranges) {
      HISTOGRAM_RETURN_IF_ERROR(clear(launch.extents, rows * 2 * sizeof(uint64_t)));
      RowExtentKernel<S><<<blocks, kEvenThreads, 0, launch.stream>>>(args);
      HISTOGRAM_RETURN_IF_ERROR(LaunchStatus("typed_rows"));
    }
    HISTOGRAM_RETURN_IF_ERROR(PrepareRows(launch.type, any_bins, *launch.device));
    uint32_t shared_bytes = (bins.bins + kOutsideSlots + 31) / 32 * 32 * sizeof(uint32_t);
    if (even) {
      shared_bytes += static_cast<uint32_t>(bins.bins * sizeof(C));
      EvenRowsKernel<S><<<blocks, kEvenThreads, shared_bytes, launch.stream>>>(args);
    } else {
      TypedRowsKernel<S><<<blocks, kThreads, shared_bytes, launch.stream>>>(args);
    }
    return LaunchStatus("typed_rows");
  });
}

absl::Status PrepareRows(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device) {
  return VisitSamples(type, bins, [&]<typename S>(S, const auto& typed) {
    // Always the same limit: it is the kernel's, and other threads launch it with other bins.
    return typed.even.bins != 0
               ? AllowShared(EvenRowsKernel<S>, TableRoom(device) - kEvenStaticBytes)
               : AllowShared(TypedRowsKernel<S>, TableRoom(device));
  });
}

absl::Status EnqueueEntropy(const uint32_t* counts, uint64_t rows, uint32_t bins, float* entropy,
                            cudaStream_t stream) {
  if (rows == 0) return absl::OkStatus();
  const uint64_t blocks = (rows + kWarpRows - 1) / kWarpRows;
  RowEntropyKernel<<<static_cast<uint32_t>(blocks), kWarpRows * 32, 0, stream>>>(counts, rows, bins,
                                                                                 entropy);
  return LaunchStatus("typed_rows");
}

absl::Status EnqueueWiden(const uint32_t* counts, const uint32_t* outside, uint64_t rows,
                          uint32_t bins, uint64_t* wide, cudaStream_t stream) {
  if (rows == 0) return absl::OkStatus();
  WidenKernel<<<static_cast<uint32_t>(std::min(rows, kBlocksMax)), kEvenThreads, 0, stream>>>(
      counts, outside, rows, bins, wide);
  return LaunchStatus("typed_rows");
}

}  // namespace histogram::cuda
