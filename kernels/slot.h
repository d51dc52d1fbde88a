// The slot (counter) of a sample, found one sample at a time. Every kernel finds the same slots.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_SLOT_H_
#define HISTOGRAM_KERNELS_SLOT_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/plan_data.h"

namespace histogram::internal {

// The slot of a sample that is in no bin. REQUIRES: it is not in [lower, upper], or no bin is
// reached.
template <typename C>
inline uint32_t OutsideSlot(const Bins<C>& bins, uint32_t bin_count, C x) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(x)) return bin_count + kNanSlot;
  }
  if (bins.all_below || x < bins.lower) return bin_count + kBelowSlot;
  return bin_count + kAboveSlot;
}

// The bin of a sample whose position is within the guess's error of an integer.
// REQUIRES: lower <= x <= upper; `position` is that of x.
template <typename C>
inline uint32_t Settle(const Bins<C>& bins, double position, C x) {
  // Positions of samples in the last bin may be larger than it: hence the min.
  const uint32_t last = bins.reached - 1;
  // A call of lround takes longer, and a position halfway between integers does not come here.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  const uint32_t nearest = std::min(static_cast<uint32_t>(position + 0.5), last);
  return bins.Reaches(nearest, x) ? nearest : nearest - 1;
}

// The bin of a sample by the guess. REQUIRES: lower <= x <= upper; the guess is usable.
template <typename C>
inline uint32_t GuessBin(const Bins<C>& bins, C x) {
  const double position =
      Spread(x, bins.lower, bins.guess.half_ulp) * bins.guess.scale + bins.guess.offset;
  // Truncates. A position in (-1, 0) gives bin 0: that is right, or is settled below.
  const auto bin = static_cast<int32_t>(position);
  const uint32_t last = bins.reached - 1;
  if (const Guess& guess = bins.guess; guess.mendable()) {
    const auto found = static_cast<uint32_t>(bin);
    const bool wrong = found == guess.mend && x < bins.thresholds[guess.mend];
    return std::min(found - static_cast<uint32_t>(wrong), last);
  }
  const double rest = position - static_cast<double>(bin);
  if (rest > bins.guess.error && rest < 1 - bins.guess.error) {
    return std::min(static_cast<uint32_t>(bin), last);
  }
  return Settle(bins, position, x);
}

// REQUIRES: x >= lower.
template <typename C>
inline uint64_t CellOf(const Bins<C>& bins, const Cells& cells, C x) {
  const auto knee = static_cast<C>(cells.knee);
  return static_cast<uint64_t>(CellKey(x, knee) - CellKey(bins.lower, knee)) >> cells.shift;
}

// The bin by binary search: it is at most 2^steps - 1 above the first of the sample's cell. No
// branch depends on the sample. REQUIRES: lower <= x <= upper; the guess is not usable; there are
// thresholds.
template <typename C>
inline uint32_t SearchBin(const Bins<C>& bins, C x, int steps) {
  uint32_t low = bins.cells.first[CellOf(bins, bins.cells, x)];
  const auto last = static_cast<uint32_t>(bins.thresholds.size() - 1);
  const C* const thresholds = bins.thresholds.data();
  for (int s = steps - 1; s >= 0; --s) {
    const uint32_t next = std::min(low + (1U << s), last);
    low = x >= thresholds[next] ? next : low;
  }
  return low;
}

template <typename C>
inline uint32_t SearchBin(const Bins<C>& bins, C x) {
  return SearchBin(bins, x, std::bit_width(bins.cells.span_max));
}

// The bin by binary search among the edges of a direct plan. REQUIRES: lower <= x <= upper.
// Inlined, it would keep SlotOf from being so.
template <typename C>
__attribute__((noinline)) uint32_t SearchEdges(const Bins<C>& bins, C x) {
  const uint32_t last = bins.reached - 1;
  const auto search = [last](const auto& reaches) {
    uint32_t low = 0;
    for (int s = std::bit_width(last) - 1; s >= 0; --s) {
      const uint32_t next = std::min(low + (1U << s), last);
      low = reaches(next) ? next : low;
    }
    return low;
  };
  // Without branches that depend on the sample, searches overlap.
  const double* const listed = bins.edges.listed;
  if (listed != nullptr && !(std::is_integral_v<C> && sizeof(C) == 8)) {
    return search(
        [listed, value = static_cast<double>(x)](uint32_t i) { return value >= listed[i]; });
  }
  return search([&](uint32_t i) { return NotBelow(x, bins.edges.at(i)); });
}

template <typename C>
inline uint32_t SlotOf(const Bins<C>& bins, uint32_t bin_count, C x) {
  if (bins.reached == 0 || !(x >= bins.lower && x <= bins.upper)) {
    return OutsideSlot(bins, bin_count, x);
  }
  if (bins.guess.usable()) return GuessBin(bins, x);
  return bins.direct() ? SearchEdges(bins, x) : SearchBin(bins, x);
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_SLOT_H_
