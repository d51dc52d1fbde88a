// What is inside a Plan: thresholds, and how a bin is found from a sample.
//
// A sample is compared in a type C: float for f16, bf16 and f32, double for f64, uint32_t and
// int32_t for integers of up to 32 bits, uint64_t and int64_t. Plain data, immutable once it is in
// a Plan; thread-safe then.
#ifndef HISTOGRAM_KERNELS_PLAN_DATA_H_
#define HISTOGRAM_KERNELS_PLAN_DATA_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <bit>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

namespace histogram::internal {

template <typename C>
using KeyBits = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;

// An order-preserving key. REQUIRES: no NaN; -0.0 was made +0.0.
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

// Half a unit in the last place of a float, in the bits of a double.
inline constexpr uint64_t kHalfUlp = uint64_t{1} << 28;

// A number that grows with the sample, in double: what the guess multiplies. A float may be moved
// up by half a unit in its last place (`half_ulp` is kHalfUlp, else 0): where edges are floats,
// samples on them and one below lie apart from them then. An integer is taken from the lowest one.
template <typename C>
inline double Spread(C x, C lower, uint64_t half_ulp) {
  if constexpr (std::is_same_v<C, float>) {
    const auto bits = std::bit_cast<uint64_t>(static_cast<double>(x + 0.0F));
    return std::bit_cast<double>((bits >> 63) != 0 ? bits - half_ulp : bits + half_ulp);
  } else if constexpr (std::is_same_v<C, double>) {
    return x;
  } else {
    return static_cast<double>(
        static_cast<KeyBits<C>>(static_cast<KeyBits<C>>(x) - static_cast<KeyBits<C>>(lower)));
  }
}

// Position = Spread(sample) * scale + offset, rounded twice; a bin is its integer part, clamped to
// the last one that has a threshold. The position is monotone, so both ends of a bin tell how far
// any sample of it lies outside [bin, bin + 1): `error`, found when the plan is made. A position
// within `error` of an integer is settled by a comparison with that bin's threshold; with an error
// of 0 (kProven) none is.
struct Guess {
  static constexpr double kProven = -1;
  double scale = 0, offset = 0;
  uint64_t half_ulp = 0;  // of floats
  double error = 1;       // in bins; from kErrorMax on the guess is of no use
  // Of a guess that is not proven: the one bin that is also guessed for samples right below its
  // threshold, all other guesses being right; kNone where there is more to it. So it is with even
  // bins around zero, where the position of the least negative samples rounds to that of zero.
  uint32_t mend = kNone;
  // Of a guess that is neither proven nor mendable, where a step is given: a sample has reached bin
  // i if its value in double is at least i * step + first_edge, rounded twice. Found so for each
  // bin when the plan is made; never of integers of 64 bits, which a double does not hold.
  double first_edge = 0, step = 0;
  static constexpr double kErrorMax = 0.25;
  static constexpr uint32_t kNone = UINT32_MAX;

  bool usable() const { return error < kErrorMax; }
  bool proven() const { return error == kProven; }
  bool mendable() const { return mend != kNone && usable(); }
  bool computes_edges() const { return step > 0; }
};

// For samples by their key: cell c holds those with (key - key of the lowest) >> shift == c. They
// are in bins [first[c], first[c + 1]].
struct Cells {
  uint32_t shift = 0;
  uint32_t span_max = 0;  // the most that first[c + 1] - first[c] comes to
  std::vector<uint32_t> first;
};

template <typename C>
struct Bins;
// REQUIRES: there are thresholds.
template <typename C>
Cells MakeCells(const Bins<C>& bins);

template <typename C>
struct Bins {
  // thresholds[i]: the least sample of bin i. Non-decreasing; where two are equal the first of the
  // two bins is empty. Bins beyond the last threshold are empty: no sample reaches them.
  std::vector<C> thresholds;
  // Samples below `lower` are below the first edge, those above `upper` above the last one.
  // lower == thresholds.front() where there are any.
  C lower = {}, upper = {};
  // Without thresholds no sample is in any bin; then also: every sample is below.
  bool all_below = false;
  Guess guess;
  Cells cells;  // where the guess is not usable
};

struct PlanData {
  explicit PlanData(Binning rule) : binning(std::move(rule)) {}

  SampleType type = SampleType::kU8;
  Binning binning;
  std::variant<Bins<float>, Bins<double>, Bins<uint32_t>, Bins<int32_t>, Bins<uint64_t>,
               Bins<int64_t>>
      bins;
  // Of types of 8 and 16 bits: the slot of each pattern, see SlotCount.
  std::vector<uint32_t> slot_of_pattern;
};

// Counters of a row: one a bin, then these three.
enum Outside : uint32_t { kBelowSlot = 0, kAboveSlot = 1, kNanSlot = 2, kOutsideSlots = 3 };
inline uint32_t SlotCount(uint32_t bin_count) { return bin_count + kOutsideSlots; }

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_PLAN_DATA_H_
