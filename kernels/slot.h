// Where a sample is counted: the plain way to find it, which every kernel's answer equals.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_SLOT_H_
#define HISTOGRAM_KERNELS_SLOT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/plan_data.h"

namespace histogram::internal {

// The slot of a sample that is in no bin. REQUIRES: it is not within [lower, upper], or there are
// no thresholds.
template <typename C>
inline uint32_t OutsideSlot(const Bins<C>& bins, uint32_t bin_count, C x) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(x)) return bin_count + kNanSlot;
  }
  if (bins.all_below || x < bins.lower) return bin_count + kBelowSlot;
  return bin_count + kAboveSlot;
}

// The bin of a sample whose position is within the guess's error of an integer.
// REQUIRES: lower <= x <= upper; `position` is x's.
template <typename C>
inline uint32_t Settle(const Bins<C>& bins, double position, C x) {
  const auto nearest = static_cast<uint32_t>(std::lround(position));
  const bool reached = nearest < bins.thresholds.size() && x >= bins.thresholds[nearest];
  return reached ? nearest : nearest - 1;
}

// REQUIRES: lower <= x <= upper; the guess is usable.
template <typename C>
inline uint32_t GuessBin(const Bins<C>& bins, C x) {
  const double position =
      Spread(x, bins.lower, bins.guess.half_ulp) * bins.guess.scale + bins.guess.offset;
  // Rounds towards zero, which is down but for positions that are settled anyway.
  const auto bin = static_cast<int32_t>(position);
  const double rest = position - static_cast<double>(bin);
  if (rest > bins.guess.error && rest < 1 - bins.guess.error) {
    return std::min(static_cast<uint32_t>(bin), static_cast<uint32_t>(bins.thresholds.size() - 1));
  }
  return Settle(bins, position, x);
}

// REQUIRES: lower <= x <= upper; the guess is not usable.
template <typename C>
inline uint32_t SearchBin(const Bins<C>& bins, C x) {
  if constexpr (std::is_floating_point_v<C>) x += C{0};  // -0.0
  C lower = bins.lower;
  if constexpr (std::is_floating_point_v<C>) lower += C{0};
  const auto cell = static_cast<uint64_t>(KeyOf(x) - KeyOf(lower)) >> bins.cells.shift;
  uint32_t low = bins.cells.first[cell];
  uint32_t above = bins.cells.first[cell + 1] - low;  // how many more it may be
  const C* const next = bins.thresholds.data() + 1;
  while (above > 0) {
    const uint32_t half = (above + 1) / 2;
    const bool reached = x >= next[low + half - 1];
    low += reached ? half : 0;
    above = reached ? above - half : half - 1;
  }
  return low;
}

template <typename C>
inline uint32_t SlotOf(const Bins<C>& bins, uint32_t bin_count, C x) {
  if (bins.thresholds.empty() || !(x >= bins.lower && x <= bins.upper)) {
    return OutsideSlot(bins, bin_count, x);
  }
  return bins.guess.usable() ? GuessBin(bins, x) : SearchBin(bins, x);
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_SLOT_H_
