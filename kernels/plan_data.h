// The data of a Plan: thresholds, and how to find a sample's bin.
//
// A sample is compared in a type C: float for f16, bf16 and f32; double for f64; uint32_t or
// int32_t for integers of up to 32 bits; uint64_t or int64_t for those of 64. Plain data.
// Immutable, and so thread-safe, once it is in a Plan.
#ifndef HISTOGRAM_KERNELS_PLAN_DATA_H_
#define HISTOGRAM_KERNELS_PLAN_DATA_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <variant>
#include <vector>

namespace histogram::internal {

template <typename C>
using KeyBits = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;

// An integer that orders as x does. REQUIRES: x is neither NaN nor -0.0.
template <typename C>
constexpr KeyBits<C> KeyOf(C x) {
  using Bits = KeyBits<C>;
  constexpr Bits kSign = Bits{1} << (sizeof(C) * 8 - 1);
  if constexpr (std::is_floating_point_v<C>) {
    const Bits bits = std::bit_cast<Bits>(x);
    return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
  } else if constexpr (std::is_signed_v<C>) {
    return static_cast<Bits>(static_cast<Bits>(x) ^ kSign);
  } else {
    return x;
  }
}

// The number with this key.
template <typename C>
constexpr C OfKey(KeyBits<C> key) {
  constexpr KeyBits<C> kSign = KeyBits<C>{1} << (sizeof(C) * 8 - 1);
  if constexpr (std::is_floating_point_v<C>) {
    return std::bit_cast<C>(static_cast<KeyBits<C>>((key & kSign) != 0 ? key ^ kSign : ~key));
  } else {
    return static_cast<C>(std::is_signed_v<C> ? key ^ kSign : key);
  }
}

// Half a unit in the last place of a float, in the bits of a double.
inline constexpr uint64_t kHalfUlp = uint64_t{1} << 28;
// What Spread adds to floats. It changes zeros alone: without it half a unit would make them
// subnormal, which Intel's processors multiply slowly (0.24 instead of 1.7 G samples/s where a
// tenth of f32 are 0; Xeon, a2e122e2). Products are normal, too, unless bins are wider than 10^150.
inline constexpr double kFromZero = 0x1p-500;

// The number that the guess multiplies: a double that grows with the sample. A float moves up by
// half a unit in its last place if `half_ulp` is kHalfUlp rather than 0. Then a sample on an edge
// that is a float, and the next sample below, both keep a distance from it, as far as an even edge
// was moved to make it a float. (To move by 2^-25 of the magnitude takes fewer instructions, and
// proves 170 of 4,000 lists of such edges instead of 2,400.) An integer gives its distance from
// `lower`.
template <typename C>
inline double Spread(C x, C lower, uint64_t half_ulp) {
  if constexpr (std::is_same_v<C, float>) {
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(x) + kFromZero);
    return std::bit_cast<double>((bits >> 63) != 0 ? bits - half_ulp : bits + half_ulp);
  } else if constexpr (std::is_same_v<C, double>) {
    return x;
  } else {
    return static_cast<double>(
        static_cast<KeyBits<C>>(static_cast<KeyBits<C>>(x) - static_cast<KeyBits<C>>(lower)));
  }
}

// Position = Spread(sample) * scale + offset, rounded twice. The guessed bin is its integer part,
// at most the last bin that has a threshold. The position is monotone. So the first and the last
// sample of each bin tell how far positions lie outside [bin, bin + 1): at most `error`, which
// Plan::Make finds. A position within `error` of an integer is settled by a comparison with that
// bin's threshold. With kProven every guess is right.
struct Guess {
  static constexpr double kProven = -1;
  double scale = 0, offset = 0;
  uint64_t half_ulp = 0;  // of floats
  double error = 1;       // in bins; the guess is usable below kErrorMax
  // A guess that is not proven may be wrong in one way only: it gives bin `mend` to samples just
  // below that bin's threshold. Else kNone. Even bins around zero are such a case: the positions of
  // tiny negative samples round to that of zero.
  uint32_t mend = kNone;
  // If step > 0, for a guess that is neither proven nor mendable: a sample is in bin i or above if
  // its value in double is >= i * step + first_edge, rounded twice. Plan::Make has checked this for
  // each bin; for Plan::Direct they are the edges. Not for integers of 64 bits: a double does not
  // hold them.
  double first_edge = 0, step = 0;
  static constexpr double kErrorMax = 0.25;
  static constexpr uint32_t kNone = UINT32_MAX;

  bool usable() const { return error < kErrorMax; }
  bool proven() const { return error == kProven; }
  bool mendable() const { return mend != kNone && usable(); }
  bool computes_edges() const { return step > 0; }
};

// A table for the search by key. Cell c holds the samples with (CellKey(x) - CellKey(lower)) >>
// shift == c. Their bins are in [first[c], first[c + 1]], and at most span_max above first[c].
//
// Cells of floats have one width up to `knee` on both sides of zero. Beyond it they widen in
// proportion to the distance from zero. With knee 0 they do so everywhere. Cells of integers are
// those of their values in double; but with knee 0 they have one width everywhere.
struct Cells {
  uint32_t shift = 0;
  uint32_t span_max = 0;
  double knee = 0;  // a value of the samples' type
  std::vector<uint32_t> first;
};

// An integer that does not decrease as x grows. With knee 0 it is KeyOf(x). -0.0 has that of 0.0.
template <typename C>
std::conditional_t<std::is_integral_v<C>, uint64_t, KeyBits<C>> CellKey(C x, C knee) {
  if constexpr (std::is_floating_point_v<C>) {
    using Bits = KeyBits<C>;
    constexpr Bits kSign = Bits{1} << (sizeof(C) * 8 - 1);
    x += C{0};
    const Bits negative = std::bit_cast<Bits>(x) / kSign;
    const Bits distance = std::bit_cast<Bits>(std::fabs(x) + knee) - std::bit_cast<Bits>(knee);
    return (distance | kSign) ^ (Bits{0} - negative);
  } else {
    if (knee == 0) return KeyOf(x);
    return CellKey(static_cast<double>(x), static_cast<double>(knee));
  }
}

template <typename C>
struct Bins;
// The most cells.
inline constexpr int kCellsLog2Max = 16;
// Cells with knee 0. REQUIRES: bins.thresholds is not empty.
template <typename C>
Cells MakeKeyCells(const Bins<C>& bins);

// Whether x >= edge, by exact value.
template <typename C>
inline bool NotBelow(C x, double edge) {
  const auto rounded = static_cast<double>(x);
  if constexpr (sizeof(C) == 8 && std::is_integral_v<C>) {
    if (rounded != edge) return rounded > edge;
    // 2^63 or 2^64 is no value of C.
    constexpr double kEnd = static_cast<double>(C{1} << (std::numeric_limits<C>::digits - 1)) * 2;
    return edge < kEnd && x >= static_cast<C>(edge);
  } else {
    return rounded >= edge;
  }
}

template <typename C>
struct Bins {
  // thresholds[i]: the least sample of bin i. Non-decreasing. Of two bins with equal thresholds the
  // first is empty. Bins beyond the last threshold are empty.
  std::vector<C> thresholds;
  // In place of thresholds in a direct plan: edges.bins > 0.
  EdgeRule edges;
  // The number of thresholds, or, in a direct plan, of bins. 0: no sample is in a bin.
  uint32_t reached = 0;
  // Samples < lower are below the first edge; samples > upper are above the last one.
  // lower == thresholds.front() if there are thresholds.
  C lower = {}, upper = {};
  // No sample is in a bin, and every sample is below the first edge. Then there are no thresholds.
  bool all_below = false;
  Guess guess;
  Cells cells;  // only if the guess is not usable and there are thresholds

  bool direct() const { return edges.bins > 0; }
  // Whether x is in bin i or above. REQUIRES: i < reached, lower <= x <= upper.
  bool Reaches(uint32_t i, C x) const {
    return direct() ? NotBelow(x, edges.at(i)) : x >= thresholds[i];
  }
};

struct PlanData {
  PlanData(Binning rule, SampleType of, bool tables)
      : type(of), has_tables(tables), binning(std::move(rule)) {}

  // Of bytes, which are counted by value.
  explicit PlanData(Binning rule)
      : type(SampleType::kU8), has_tables(true), counts_values(true), binning(std::move(rule)) {}

  SampleType type;
  bool has_tables;
  bool counts_values = false;  // then only the binning is used
  Binning binning;
  std::variant<Bins<float>, Bins<double>, Bins<uint32_t>, Bins<int32_t>, Bins<uint64_t>,
               Bins<int64_t>>
      bins;
  // Types of 8 and 16 bits: the slot of each bit pattern (see SlotCount). Empty in a direct plan.
  std::vector<uint32_t> slot_of_pattern;
  // What devices count by, made when the first of them needs it (kernels/cuda/plan). Null before.
  mutable std::once_flag for_devices_made;
  mutable std::shared_ptr<const void> for_devices;
};

// The greatest sample below x. REQUIRES: there is one.
template <typename C>
C Previous(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::nextafter(x, -std::numeric_limits<C>::infinity());
  } else {
    return static_cast<C>(x - 1);
  }
}

// The slots (counters) of a row: one for each bin, then these three.
enum Outside : uint32_t { kBelowSlot = 0, kAboveSlot = 1, kNanSlot = 2, kOutsideSlots = 3 };
inline uint32_t SlotCount(uint32_t bin_count) { return bin_count + kOutsideSlots; }

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_PLAN_DATA_H_
