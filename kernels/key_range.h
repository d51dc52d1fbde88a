// The least and the greatest sample, by their keys.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_KEY_RANGE_H_
#define HISTOGRAM_KERNELS_KEY_RANGE_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "kernels/cpu/features.h"
#include "kernels/sample.h"

namespace histogram::internal {

// Without samples, least > greatest.
template <typename Bits>
struct KeyRange {
  Bits least = std::numeric_limits<Bits>::max(), greatest = 0;
  bool all = true;  // whether all samples are in it
};

template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_INLINE inline KeyRange<Bits> FindKeysInline(const std::byte* samples, size_t count,
                                                      Bits first, Bits width) {
  Bits least = std::numeric_limits<Bits>::max(), greatest = 0, farthest = 0;
  for (size_t i = 0; i < count; ++i) {
    // Other keys come to more than `width`.
    const auto from =
        static_cast<Bits>(K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits))) - first);
    least = std::min(least, from);
    farthest = std::max(farthest, from);
    // Arithmetic, because compilers make no vectors of a conditional expression here.
    const auto within = static_cast<Bits>(from & -Bits{from <= width});
    greatest = std::max(greatest, within);
  }
  if (least > width) return {.all = count == 0};
  return {static_cast<Bits>(least + first), static_cast<Bits>(greatest + first), farthest <= width};
}

// Of the samples with keys from `first` to first + width.
template <typename K, typename Bits = typename K::Bits>
KeyRange<Bits> FindKeys(std::span<const std::byte> samples, Bits first, Bits width) {
  KeyRange<Bits> found;
  cpu::CallFast([&]() HISTOGRAM_INLINE {
    found = FindKeysInline<K>(samples.data(), samples.size() / sizeof(Bits), first, width);
  });
  return found;
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_KEY_RANGE_H_
