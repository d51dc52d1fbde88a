// The moments of samples of 32 and 64 bits, block by block.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_DISTANCE_SUMS_H_
#define HISTOGRAM_KERNELS_DISTANCE_SUMS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "kernels/plan_data.h"
#include "kernels/sample.h"

namespace histogram::internal {

// Samples whose moments are computed together, then merged. Not measured apart.
inline constexpr size_t kDistancesMax = 1024;
// Sums beside each other, which do not wait for each other. Not measured apart.
inline constexpr size_t kLanes = 16;

// The power of two that brings distances between the bounds near 1, where their squares neither
// overflow nor vanish.
template <typename C>
double ScaleOf(const Bins<C>& bins) {
  const double half = static_cast<double>(bins.upper) / 2 - static_cast<double>(bins.lower) / 2;
  return half > 0 ? std::ldexp(1.0, std::min(-std::ilogb(half), 1023)) : 1;
}

// The distance of a sample from the least sample of any bin.
template <typename C>
HISTOGRAM_INLINE inline double Distance(C x, C lower, double scale) {
  if constexpr (std::is_floating_point_v<C>) {
    return static_cast<double>(x) * scale - static_cast<double>(lower) * scale;
  } else {
    using Bits = KeyBits<C>;
    const auto distance = static_cast<Bits>(static_cast<Bits>(x) - static_cast<Bits>(lower));
    return static_cast<double>(distance) * scale;
  }
}

// Calls step(i, the lane of i) for each i below count.
template <typename Step>
HISTOGRAM_INLINE inline void InLanes(size_t count, const Step& step) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) step(i + lane, lane);
  }
  for (size_t lane = 0; i + lane < count; ++lane) step(i + lane, lane);
}

// Of the samples in bins: how many, the sum of their distances, and that of the squares of these
// less their mean, which has no meaning if there are none.
struct DistanceSums {
  double count = 0, distances = 0, squares = 0;
};

// REQUIRES: count <= kDistancesMax.
template <typename S, typename C = typename S::Compare>
HISTOGRAM_INLINE inline DistanceSums SumsOf(const std::byte* samples, size_t count, C lower,
                                            C upper, double scale) {
  using Bits = typename S::Bits;
  // Compilers make no vectors of a loop over floats beside doubles.
  using Wide = std::conditional_t<std::is_same_v<C, float>, double, C>;
  const Wide first = lower, last = upper;
  Wide values[kDistancesMax];
  for (size_t i = 0; i < count; ++i) {
    values[i] = S::Widen(LoadBits<Bits>(samples + i * sizeof(Bits)));
  }
  double distances[kDistancesMax], weights[kDistancesMax];  // 0 for samples in no bin
  for (size_t i = 0; i < count; ++i) {
    const bool inside = (values[i] >= first) & (values[i] <= last);
    weights[i] = inside ? 1.0 : 0.0;
    distances[i] = Distance(inside ? values[i] : first, first, scale);
  }
  double counts[kLanes] = {}, sums[kLanes] = {}, squares[kLanes] = {};
  InLanes(count, [&](size_t i, size_t lane) HISTOGRAM_INLINE {
    counts[lane] += weights[i];
    sums[lane] += distances[i];
  });
  DistanceSums out;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    out.count += counts[lane];
    out.distances += sums[lane];
  }
  const double mean = out.distances / out.count;
  InLanes(count, [&](size_t i, size_t lane) HISTOGRAM_INLINE {
    const double from_mean = distances[i] - mean;
    squares[lane] += weights[i] * (from_mean * from_mean);
  });
  for (const double square : squares) out.squares += square;
  return out;
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_DISTANCE_SUMS_H_
