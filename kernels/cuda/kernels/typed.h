// Counting typed samples on a device: the form of a plan there, and the launch that counts.
//
// A sample is compared as a C, the same as on a CPU (plan_data.h). Bin i holds the samples in
// [thresholds[i], thresholds[i+1]), the last one those up to `upper`.
//
// Includes CUDA's headers. Plain data and functions without state; thread-safe.
#ifndef HISTOGRAM_CUDA_KERNELS_TYPED_H_
#define HISTOGRAM_CUDA_KERNELS_TYPED_H_

#include <cuda_runtime_api.h>
#include <histogram/sample_type.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/kernels/kernel.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

// Behind the bins of a row: samples below the first edge, above the last one, and NaN.
using internal::kOutsideSlots;

// --- Even edges that a device computes itself: neither a plan nor tables are made, and nothing is
// copied. A block computes the thresholds of its bins. It finds bins by FindBy::kGuess, those of
// samples of 8 and 16 bits by a search. On a host these are called in the library's floating-point
// mode.

// How edges are computed: in double; in double, then rounded to float; in float.
enum class EdgeArithmetic : uint8_t { kDouble, kRounded, kFloat };

// Edge i is i * step + lower, rounded twice; the last one is upper.
struct EvenEdges {
  double lower = 0, upper = 0, step = 0;
  uint32_t bins = 0;  // 0: there are none
  EdgeArithmetic arithmetic = EdgeArithmetic::kDouble;

  __host__ __device__ double at(uint32_t i) const {
    if (i == bins) return upper;
    if (arithmetic == EdgeArithmetic::kFloat) {
      return static_cast<float>(i) * static_cast<float>(step) + static_cast<float>(lower);
    }
    const double edge = i * step + lower;
    return arithmetic == EdgeArithmetic::kRounded ? static_cast<float>(edge) : edge;
  }
};

// The edges of `bins` bins. For kRounded and kFloat the ends are rounded to float.
// REQUIRES: lower < upper.
__host__ __device__ inline EvenEdges EvenEdgesOf(double lower, double upper, uint32_t bins,
                                                 EdgeArithmetic arithmetic) {
  EvenEdges edges;
  edges.bins = bins;
  edges.arithmetic = arithmetic;
  if (arithmetic == EdgeArithmetic::kFloat) {
    const float distance = static_cast<float>(upper) - static_cast<float>(lower);
    edges.lower = static_cast<float>(lower);
    edges.step = distance / static_cast<float>(bins);
  } else {
    edges.lower = lower;
    edges.step = (upper - lower) / bins;
  }
  const bool floats = arithmetic != EdgeArithmetic::kDouble;
  edges.upper = floats ? static_cast<double>(static_cast<float>(upper)) : upper;
  return edges;
}

// Whether all edges are finite and each is greater than the one before, with room to spare.
__host__ __device__ inline bool AreDistinct(const EvenEdges& edges) {
  const bool floats = edges.arithmetic != EdgeArithmetic::kDouble;
  const double widest = fmax(fabs(edges.lower), fabs(edges.upper));
  const double unit = floats ? FLT_EPSILON : DBL_EPSILON;
  const double most = floats ? static_cast<double>(FLT_MAX) : DBL_MAX;
  const double least = floats ? static_cast<double>(FLT_MIN) : DBL_MIN;
  return widest <= most && edges.step <= most && edges.step >= least &&
         edges.step >= 4 * unit * widest;
}

// The least sample >= edge of those that are compared as a C. REQUIRES: there is one.
template <typename C>
__host__ __device__ inline C LeastFrom(double edge) {
  if constexpr (std::is_same_v<C, double>) {
    return edge;
  } else if constexpr (std::is_same_v<C, float>) {
#ifdef __CUDA_ARCH__
    return __double2float_ru(edge);
#else
    const auto value = static_cast<float>(edge);
    return static_cast<double>(value) < edge ? std::nextafter(value, HUGE_VALF) : value;
#endif
  } else {
    constexpr C kLeast = std::numeric_limits<C>::min();
    const double whole = ceil(edge);
    return whole <= static_cast<double>(kLeast) ? kLeast : static_cast<C>(whole);
  }
}

// --- Bins

// How the bin of a sample is found.
enum class FindBy : uint8_t {
  // Floats of up to 32 bits: a multiply-add in float, and then the largest integer below, both
  // rounded down. A bin is then the integer part of x * scale + offset as real numbers. Proven for
  // every sample inside; one outside gets no bin below `reached`.
  kFloor,
  // f32 and f64: the same in double.
  kWideFloor,
  // Integers of up to 32 bits: a multiply-add of integers, LineBin, proven for every sample inside.
  kLine,
  // A multiply-add gives the position less a half, f; its nearest integer k is the bin where
  // |f - k| < sure. Elsewhere the bin is k or a neighbour, and one threshold decides. That holds
  // because the multiply-add is monotone: MakeGuess (bin_rules.cc) looks at both ends of each bin.
  // Or because the error is bounded (SetEvenGuess); with `sure` 0 it is not, and a search decides.
  kGuess,
  // Floats: a multiply-add names a cell (CellOf), and the cell a bin: the sample's, or the next if
  // it is not below that one's threshold. A search decides in cells of more thresholds.
  kCells,
  // The order-preserving key of the sample names a cell, and the cell the least and the greatest
  // bin that its samples can be in; a search between them decides. Without cells: between all bins.
  kKeys,
};

template <typename C>
struct TypedBins {
  using Guess = std::conditional_t<sizeof(C) == 8, double, float>;

  FindBy by = FindBy::kKeys;
  C lower = {}, upper = {};
  bool all_below = false;  // every sample is
  uint32_t bins = 0;       // of the row
  uint32_t reached = 0;    // bins that have a threshold; no sample is in a later one
  Guess scale = 0, offset = 0, sure = 0;
  double wide_scale = 0, wide_offset = 0;
  uint64_t slope = 0, intercept = 0;
  uint32_t sure_span = 0;  // kLine: so far from `lower` it finds the bin; beyond, it is the last
  // With bins: there are no thresholds in memory. Each block computes `reached`, by LeastFrom.
  EvenEdges even;
  const C* thresholds = nullptr;  // device memory: `reached`, and behind them, of floats, NaN
  // kCells, device memory: the last bin whose threshold is in an earlier cell, for one cell more
  // than there are; kCellCrowded is set where the cell itself holds more than one threshold.
  const uint16_t* cells = nullptr;
  uint32_t cell_count = 0;
  // kKeys
  const uint32_t* candidates = nullptr;  // device memory, cells + 1
  uint32_t cell_shift = 0;
  // Of a plan of samples of 8 bits: the slot of each pattern, in device memory, and whether each
  // has the bin of its value, and there are no others.
  const uint32_t* slot_of = nullptr;
  bool bin_for_each_byte = false;
};

// The bins of a plan, in the type that its samples are compared in.
using AnyTypedBins = std::variant<TypedBins<float>, TypedBins<double>, TypedBins<uint32_t>,
                                  TypedBins<int32_t>, TypedBins<uint64_t>, TypedBins<int64_t>>;

inline uint32_t BinCount(const AnyTypedBins& bins) {
  return std::visit([](const auto& typed) { return typed.bins; }, bins);
}

// How far an integer is from a lesser one.
template <typename C>
__host__ __device__ inline internal::KeyBits<C> Distance(C x, C from) {
  using Bits = internal::KeyBits<C>;
  return static_cast<Bits>(x) - static_cast<Bits>(from);
}

template <typename C>
__host__ __device__ inline C ThresholdOf(const TypedBins<C>& bins, uint32_t i) {
  return bins.even.bins != 0 ? LeastFrom<C>(bins.even.at(i)) : bins.thresholds[i];
}

// The numbers of kGuess for bins.even. The position of `x` less a half is x' * scale + offset.
// There x' is x itself, or of integers its distance from bins.lower, whose value is `lower`. Within
// `sure` of an integer it is right. Times a number's rounding, the scale and the greatest magnitude
// of an x', a position is off by at most 8, an edge by 8. `sure` stays 0 where no position is known
// to be right.
template <typename C>
__host__ __device__ inline void SetEvenGuess(TypedBins<C>& bins, double lower) {
  using Number = typename TypedBins<C>::Guess;
  constexpr double kUnit = sizeof(Number) == 4 ? FLT_EPSILON / 2 : DBL_EPSILON / 2;
  constexpr double kLeast = sizeof(Number) == 4 ? static_cast<double>(FLT_MIN) : DBL_MIN;
  constexpr double kMost = sizeof(Number) == 4 ? static_cast<double>(FLT_MAX) : DBL_MAX;
  const EvenEdges& edges = bins.even;
  const bool floats = edges.arithmetic != EdgeArithmetic::kDouble;
  const double widest = fmax(fabs(edges.lower), fabs(edges.upper));
  double from = -edges.lower, greatest = widest;
  if constexpr (!std::is_floating_point_v<C>) {
    from = lower - edges.lower;
    greatest = static_cast<double>(Distance(bins.upper, bins.lower));
  }
  const double scale = edges.bins / (edges.upper - edges.lower);
  const double offset = from * scale - 0.5;
  const double error =
      8 * scale * (greatest * kUnit + widest * (floats ? FLT_EPSILON / 2 : DBL_EPSILON / 2));
  bins.scale = bins.offset = bins.sure = 0;
  if (!(error < 0.25 && scale >= kLeast && scale <= kMost && fabs(offset) <= kMost)) return;
  bins.scale = static_cast<Number>(scale);
  bins.offset = static_cast<Number>(offset);
  bins.sure = static_cast<Number>(0.5 - error);
}

// kGuess: the position of `x` less a half: monotone in x on [lower, upper], and the same on host
// and device. Of an integer it is that of the distance from `lower`, which is exact.
template <typename C>
__host__ __device__ inline typename TypedBins<C>::Guess Position(
    C x, C lower, typename TypedBins<C>::Guess scale, typename TypedBins<C>::Guess offset) {
  using Guess = typename TypedBins<C>::Guess;
  if constexpr (std::is_floating_point_v<C>) {
    return std::fma(x, scale, offset);
  } else {
    return std::fma(static_cast<Guess>(Distance(x, lower)), scale, offset);
  }
}

// 1.5 times the power of two whose unit in the last place is 1: added to a position it leaves the
// rounded position in the low bits.
__host__ __device__ inline float Magic(float) { return 12582912.0F; }
__host__ __device__ inline double Magic(double) { return 6755399441055744.0; }
__host__ __device__ inline uint32_t LowBits(float x) {
  return std::bit_cast<uint32_t>(x) - 0x4B400000U;
}
__host__ __device__ inline uint32_t LowBits(double x) {
  return static_cast<uint32_t>(std::bit_cast<uint64_t>(x));
}

inline constexpr uint32_t kCellBinMask = 0x7FFF, kCellCrowded = 0x8000;
// kCells: grows with x on [lower, upper]; some cell elsewhere.
template <typename C>
__host__ __device__ inline uint32_t CellOf(C x, const TypedBins<C>& bins) {
  const C position = Position<C>(x, bins.lower, bins.scale, bins.offset);
  const uint32_t cell = LowBits(position + Magic(position));
  return cell < bins.cell_count ? cell : bins.cell_count - 1;
}

// kLine: the integer part of (x - lower) * slope / 2^64 + intercept / 2^32. Samples of 8 and 16
// bits need the upper half of the slope only.
template <bool kWide>
__host__ __device__ inline uint32_t LineBin(uint32_t from, uint64_t slope, uint64_t intercept) {
  uint64_t line = uint64_t{from} * static_cast<uint32_t>(slope >> 32) + intercept;
  if constexpr (kWide) line += (uint64_t{from} * static_cast<uint32_t>(slope)) >> 32;
  return static_cast<uint32_t>(line >> 32);
}

// What makes a launch a whole call: the last block to finish moves the row to the host, so that the
// counts are zero again, and says so.
struct HandOver {
  uint64_t* row = nullptr;      // mapped host memory, as long as the counts; null: nothing is moved
  uint32_t* flag = nullptr;     // mapped host memory; gets `value` when the row is there
  uint32_t* tickets = nullptr;  // device memory; zero between launches
  uint32_t value = 0;
};

// One launch, or as many as the bins need. All memory is the caller's and stays valid until the
// launch is done.
struct TypedLaunch {
  SampleType type = SampleType::kF32;
  const void* samples = nullptr;  // device memory, aligned to the sample
  uint64_t count = 0;
  unsigned long long* counts = nullptr;  // device memory, bins + kOutsideSlots; added to
  void* workspace = nullptr;             // device memory; holds anything, aligned to 16 bytes
  uint64_t workspace_bytes = 0;
  HandOver hand_over;  // EnqueueTable only, of one part; the counts are zero before
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};

// What reports call the kernel.
inline constexpr absl::string_view kTypedTableName = "typed_table";
inline constexpr absl::string_view kTypedTableSummary =
    "typed samples, into a table of the bins in shared memory";

// The functions below queue the count on launch.stream. REQUIRES: the bins are of the type in which
// launch.type is compared.

// By a table in shared memory, with as many launches as there are parts; no workspace.
// REQUIRES: PrepareTable, once, with the launch's device current.
absl::Status EnqueueTable(const TypedLaunch& launch, const AnyTypedBins& bins);
// Loads the kernel that counts by these bins, and lets it use the shared memory of a block. Loading
// waits for what runs on the device: a thread that has launched something that never ends must not
// need it afterwards.
absl::Status PrepareTable(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device);
// Shared memory of a block for a table: a line is left to the kernel's own variables.
uint32_t TableRoom(const DeviceTraits& device);
// Room for the kernel's own variables where bins are even, at most.
inline constexpr uint32_t kEvenStaticBytes = 512;
// How many parts of a table the bins need.
uint32_t TableParts(uint32_t bins, const DeviceTraits& device);

// By a partition of the samples in the workspace, which is at least of PartitionBytes for one
// sample. More samples than it was made for are counted in several goes.
absl::Status EnqueuePartition(const TypedLaunch& launch, const AnyTypedBins& bins);
inline constexpr uint64_t kPartitionSamplesMax = uint64_t{1} << 31;
uint64_t PartitionBytes(uint32_t bins, uint64_t samples);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_TYPED_H_
