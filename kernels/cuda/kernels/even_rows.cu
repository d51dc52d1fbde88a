// Counts rows into even bins: a block has the counters and the thresholds of the row, or of the
// piece of a row, that it counts. For its own range it reads a row twice, the second time from L2.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/even_rows.h"
#include "kernels/cuda/kernels/extent.cuh"
#include "kernels/cuda/kernels/typed_find.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// 4,096 rows of 4,096 f32 into 256 bins take 45 us over one range, 58 over their own (H200,
// 78dfbe7). More threads leave more of them idle at a short row's end. Other numbers were not
// measured.
constexpr uint32_t kThreads = 256;
constexpr uint32_t kLoads = 4;
// A row is cut into pieces where rows are few, but not into shorter ones: a piece clears and adds
// up a table of its own.
constexpr uint64_t kPieceSamplesMin = 16384;
constexpr uint64_t kBlocksOfMultiprocessor = 8;
// Shared memory of the kernels beside counters and thresholds, at most.
constexpr uint32_t kStaticBytesMax = 512;

template <typename C>
struct Args {
  TypedBins<C> bins;
  Keying<C> keying;
  EvenRowsLaunch launch;
  uint32_t pieces = 1;  // of each row
};

// Calls add(Bits) for the samples of one block. They stay in L2, for a second look.
template <typename Bits, typename Add>
__device__ inline void ForBlock(const Bits* samples, uint64_t count, const Add& add) {
  ForSamplesOf<kLoads>(
      samples, count, threadIdx.x, kThreads, [](const uint4* address) { return __ldg(address); },
      [&](const uint4& vector) { ForVector<Bits>(vector, add); },
      [&](Bits bits, uint64_t) { add(bits); });
}

// The samples of a unit of work.
template <typename Bits>
struct Piece {
  uint64_t row;
  const Bits* samples;
  uint64_t count;

  __device__ Piece(const RowsLaunch& rows, uint64_t unit, uint32_t pieces) : row(unit / pieces) {
    const uint64_t begin = row * rows.step, end = min(begin + rows.window, rows.pixels);
    const uint64_t share = (end - begin + pieces - 1) / pieces;
    const uint64_t first = min(begin + unit % pieces * share, end);
    samples = static_cast<const Bits*>(rows.samples) + first;
    count = min(share, end - first);
  }
};

template <typename S>
__device__ inline auto ExtremesOf(const Piece<typename S::Bits>& piece,
                                  const Keying<typename S::Compare>& keying) {
  Extremes<internal::KeyBits<typename S::Compare>> extremes;
  ForBlock(piece.samples, piece.count,
           [&](typename S::Bits bits) { extremes.Add(ExtentKey(WidenOne<S>(keying, bits))); });
  return OfBlock<kThreads>(extremes);
}

// A double does not hold each integer of 64 bits: with kUp the value is rounded up, else down.
template <bool kUp, typename C>
__device__ inline double ValueOf(C sample, C zero) {
  if constexpr (std::is_floating_point_v<C>) {
    return sample;
  } else if constexpr (sizeof(C) == 8) {
    const auto number = static_cast<long long>(sample - zero);
    if (zero != 0) return kUp ? __ll2double_ru(number) : __ll2double_rd(number);
    return kUp ? __ull2double_ru(sample) : __ull2double_rd(sample);
  } else {
    return static_cast<double>(sample) - static_cast<double>(zero);
  }
}

// Changes `bins` to those of a row over its own range. Returns their ends.
template <typename C>
__device__ inline RowEnds MakeOwnBins(const Extremes<internal::KeyBits<C>>& extremes,
                                      TypedBins<C>& bins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto least = static_cast<internal::KeyBits<C>>(~extremes.most_below);
  bins.none = true;
  bins.lower = internal::OfKey<C>(least);
  bins.upper = internal::OfKey<C>(extremes.greatest);
  double lower = ValueOf<false>(bins.lower, bins.zero);
  double upper = ValueOf<true>(bins.upper, bins.zero);
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
  bins.none = false;
  bins.reached = count;
  // Then a threshold may be no sample.
  if (equal) {
    uint32_t low = 0, high = count;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (bins.even.at(middle) <= ValueOf<false>(bins.upper, bins.zero)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    bins.reached = low;
  }
  double from = -lower, greatest = fmax(fabs(lower), fabs(upper));
  if constexpr (!std::is_floating_point_v<C>) {
    from = ValueOf<false>(bins.lower, bins.zero) - lower;
    greatest = static_cast<double>(static_cast<C>(bins.upper - bins.lower));
  }
  const auto guess = EvenGuessOf<typename TypedBins<C>::Guess>(bins.even, from, greatest);
  bins.scale = guess.scale;
  bins.offset = guess.offset;
  bins.sure = guess.sure;
  return {lower, bins.even.upper};
}

// --- Kernels

// The extremes of rows that are cut into pieces; the words are zero before.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    RowExtentKernel(const __grid_constant__ Args<typename S::Compare> args) {
  const RowsLaunch& rows = args.launch.rows;
  const uint64_t units = rows.stretches * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const Piece<typename S::Bits> piece(rows, unit, args.pieces);
    const auto extremes = ExtremesOf<S>(piece, args.keying);
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
__global__ void __launch_bounds__(kThreads)
    EvenRowsKernel(const __grid_constant__ Args<typename S::Compare> args) {
  using C = typename S::Compare;
  using Key = internal::KeyBits<C>;
  constexpr FindBy kBy = sizeof(typename S::Bits) >= 4 ? FindBy::kGuess : FindBy::kKeys;
  extern __shared__ __align__(16) uint32_t table[];
  __shared__ __align__(8) std::byte of_row[sizeof(TypedBins<C>)];
  const RowsLaunch& rows = args.launch.rows;
  const uint32_t slots = args.bins.bins + kOutsideSlots, words = (slots + 31) / 32 * 32;
  C* const thresholds = reinterpret_cast<C*>(table + words);
  const uint64_t units = rows.stretches * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const Piece<typename S::Bits> piece(rows, unit, args.pieces);
    for (uint32_t i = threadIdx.x; i < words; i += kThreads) table[i] = 0;
    if (args.launch.own_ranges) {
      Extremes<Key> extremes;
      if (args.pieces == 1) {
        extremes = ExtremesOf<S>(piece, args.keying);
      } else {
        extremes.most_below = static_cast<Key>(args.launch.extents[2 * piece.row]);
        extremes.greatest = static_cast<Key>(args.launch.extents[2 * piece.row + 1]);
      }
      if (threadIdx.x == 0) {
        TypedBins<C> own = args.bins;
        const RowEnds ends = MakeOwnBins(extremes, own);
        memcpy(of_row, &own, sizeof(own));
        if (unit % args.pieces == 0) args.launch.ends[piece.row] = ends;
      }
      __syncthreads();
    }
    TypedBins<C> bins = args.bins;
    if (args.launch.own_ranges) memcpy(&bins, of_row, sizeof(bins));
    const bool counted = !args.launch.own_ranges || !bins.none;
    for (uint32_t i = threadIdx.x; i < bins.reached; i += kThreads) {
      thresholds[i] = ThresholdOf(bins, i);
    }
    __syncthreads();
    const Rule<C> rule{bins, thresholds, nullptr};
    if (counted) {
      ForBlock(piece.samples, piece.count, [&](typename S::Bits bits) {
        const C sample = WidenOne<S>(args.keying, bits);
        atomicAdd(&table[Permuted(SlotBy<kBy, false>(rule, sample))], 1U);
      });
    }
    __syncthreads();
    for (uint32_t slot = threadIdx.x; slot < slots; slot += kThreads) {
      const uint32_t count = table[Permuted(slot)];
      uint32_t* const to = slot < bins.bins
                               ? &rows.counts[piece.row * bins.bins + slot]
                               : &rows.outside[piece.row * kOutsideSlots + (slot - bins.bins)];
      if (args.pieces == 1) {
        *to = count;
      } else if (count != 0) {
        atomicAdd(to, count);
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    WidenKernel(const uint32_t* counts, const uint32_t* outside, uint64_t rows, uint32_t bins,
                uint64_t* wide) {
  const uint32_t slots = bins + kOutsideSlots;
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (uint32_t slot = threadIdx.x; slot < slots; slot += kThreads) {
      wide[row * slots + slot] =
          slot < bins ? counts[row * bins + slot] : outside[row * kOutsideSlots + (slot - bins)];
    }
  }
}

}  // namespace

absl::Status EnqueueEvenRows(const EvenRowsLaunch& launch, const AnyTypedBins& any_bins) {
  const RowsLaunch& rows = launch.rows;
  if (rows.stretches == 0) return absl::OkStatus();
  return VisitSamples(rows.type, any_bins, [&]<typename S>(S, const auto& bins) -> absl::Status {
    using C = typename S::Compare;
    Args<C> args;
    args.bins = bins;
    args.keying = KeyingOf<S>(rows.type);
    args.launch = launch;
    const uint64_t wanted = kBlocksOfMultiprocessor * rows.device->multiprocessors;
    const uint64_t pieces_max = rows.longest / kPieceSamplesMin + 1;
    args.pieces =
        static_cast<uint32_t>(std::clamp<uint64_t>(wanted / rows.stretches, 1, pieces_max));
    constexpr uint64_t kBlocksMax = 65536;
    const auto blocks = static_cast<uint32_t>(std::min(rows.stretches * args.pieces, kBlocksMax));
    if (args.pieces > 1) {
      HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
          rows.counts, 0, rows.stretches * bins.bins * sizeof(uint32_t), rows.stream));
      HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
          rows.outside, 0, rows.stretches * kOutsideSlots * sizeof(uint32_t), rows.stream));
    }
    if (args.pieces > 1 && launch.own_ranges) {
      HISTOGRAM_CUDA_RETURN_IF_ERROR(
          cudaMemsetAsync(launch.extents, 0, rows.stretches * 2 * sizeof(uint64_t), rows.stream));
      RowExtentKernel<S><<<blocks, kThreads, 0, rows.stream>>>(args);
      HISTOGRAM_RETURN_IF_ERROR(LaunchStatus("even_rows"));
    }
    const uint64_t words = (bins.bins + kOutsideSlots + 31) / 32 * 32;
    const auto shared_bytes =
        static_cast<uint32_t>(words * sizeof(uint32_t) + uint64_t{bins.bins} * sizeof(C));
    auto* const kernel = EvenRowsKernel<S>;
    // Always the same limit: it is the kernel's, and other threads launch it with other bins.
    HISTOGRAM_RETURN_IF_ERROR(AllowShared(kernel, TableRoom(*rows.device) - kStaticBytesMax));
    kernel<<<blocks, kThreads, shared_bytes, rows.stream>>>(args);
    return LaunchStatus("even_rows");
  });
}

absl::Status EnqueueWiden(const uint32_t* counts, const uint32_t* outside, uint64_t rows,
                          uint32_t bins, uint64_t* wide, cudaStream_t stream) {
  if (rows == 0) return absl::OkStatus();
  constexpr uint64_t kBlocksMax = 65536;
  WidenKernel<<<static_cast<uint32_t>(std::min(rows, kBlocksMax)), kThreads, 0, stream>>>(
      counts, outside, rows, bins, wide);
  return LaunchStatus("even_rows");
}

}  // namespace histogram::cuda
