// From a typed sample to its slot, on the device: Find, which is quick and mostly sure, and Settle,
// which knows. Functions without state.
//
// A bin's number comes from the low bits of a float: neither a conversion nor a rounding
// instruction is needed, of which a multiprocessor has a quarter of the rate.
#ifndef HISTOGRAM_CUDA_KERNELS_TYPED_FIND_CUH_
#define HISTOGRAM_CUDA_KERNELS_TYPED_FIND_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// What finds bins, and where it lies: shared memory where there is room.
template <typename C>
struct Rule {
  const TypedBins<C>& bins;
  const C* thresholds;
  const uint16_t* cells;
};

// The last bin from low to high whose threshold is not above x.
template <typename C>
__device__ inline uint32_t SearchBetween(const C* thresholds, C x, uint32_t low, uint32_t high) {
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (x >= thresholds[middle]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <typename C>
__device__ inline uint32_t SearchByKey(const Rule<C>& rule, C x) {
  const TypedBins<C>& bins = rule.bins;
  if (bins.even.bins != 0) return SearchBetween(rule.thresholds, x, 0, bins.reached - 1);
  if constexpr (std::is_floating_point_v<C>) x += C{0};  // -0.0
  const auto cell =
      static_cast<uint32_t>((internal::KeyOf(x) - internal::KeyOf(bins.lower)) >> bins.cell_shift);
  return SearchBetween(rule.thresholds, x, __ldg(bins.candidates + cell),
                       __ldg(bins.candidates + cell + 1));
}

// The slot of any sample by a rule that may be slow. `found`: what Find said.
template <FindBy kBy, typename C>
__device__ inline uint32_t Settle(const Rule<C>& rule, C x, uint32_t found) {
  const TypedBins<C>& bins = rule.bins;
  if (bins.all_below || x < bins.lower) return bins.bins + internal::kBelowSlot;
  if (bins.reached == 0 || !(x <= bins.upper)) {
    return bins.bins + (x >= bins.lower ? internal::kAboveSlot : internal::kNanSlot);
  }
  if constexpr (kBy == FindBy::kKeys) {
    return SearchByKey(rule, x);
  } else if constexpr (kBy == FindBy::kCells) {
    const uint32_t cell = CellOf(x, bins);
    return SearchBetween(rule.thresholds, x, rule.cells[cell] & kCellBinMask,
                         rule.cells[cell + 1] & kCellBinMask);
  } else if constexpr (kBy == FindBy::kGuess) {
    using Guess = typename TypedBins<C>::Guess;
    if (!(bins.sure > 0)) return SearchBetween(rule.thresholds, x, 0, bins.reached - 1);
    const Guess f = Position<C>(x, bins.lower, bins.scale, bins.offset);
    const Guess rest = f - ((f + Magic(Guess{})) - Magic(Guess{}));
    const uint32_t candidate = found + (rest >= Guess{0} ? 1 : 0);
    const bool reached = candidate < bins.reached && x >= rule.thresholds[candidate];
    return reached ? candidate : candidate - 1;
  } else {
    return min(found, bins.reached - 1);
  }
}

// The bin of a sample; clears `sure` where only Settle knows.
template <FindBy kBy, bool kWide, typename C>
__device__ inline uint32_t Find(const Rule<C>& rule, C x, bool& sure) {
  const TypedBins<C>& bins = rule.bins;
  if constexpr (kBy == FindBy::kFloor) {
    const uint32_t bin = LowBits(__fadd_rd(__fmaf_rd(x, bins.scale, bins.offset), Magic(x)));
    sure = sure && bin < bins.reached;
    return bin;
  } else if constexpr (kBy == FindBy::kWideFloor) {
    const double wide = x;
    const uint32_t bin =
        LowBits(__dadd_rd(__fma_rd(wide, bins.wide_scale, bins.wide_offset), Magic(wide)));
    // The low bits of a double alone do not tell.
    sure = sure && x >= bins.lower && x <= bins.upper && bin < bins.reached;
    return bin;
  } else if constexpr (kBy == FindBy::kLine) {
    const uint32_t from = Distance(x, bins.lower);
    sure = sure && from <= bins.sure_span;
    return LineBin<kWide>(from, bins.slope, bins.intercept);
  } else if constexpr (kBy == FindBy::kGuess) {
    using Guess = typename TypedBins<C>::Guess;
    const Guess f = Position<C>(x, bins.lower, bins.scale, bins.offset);
    const Guess rounded = f + Magic(Guess{});
    const Guess rest = f - (rounded - Magic(Guess{}));
    sure = sure && x >= bins.lower && x <= bins.upper && abs(rest) < bins.sure;
    return LowBits(rounded);
  } else if constexpr (kBy == FindBy::kCells) {
    const uint32_t cell = rule.cells[CellOf(x, bins)];
    const uint32_t bin = cell & kCellBinMask;
    sure = sure && x >= bins.lower && x <= bins.upper && cell <= kCellBinMask;
    return bin + (x >= rule.thresholds[bin + 1] ? 1 : 0);
  } else {
    sure = false;
    return 0;
  }
}

template <FindBy kBy, bool kWide, typename C>
__device__ inline uint32_t SlotBy(const Rule<C>& rule, C x) {
  bool sure = true;
  const uint32_t found = Find<kBy, kWide>(rule, x, sure);
  return sure ? found : Settle<kBy>(rule, x, found);
}

// Calls visit.template operator()<kBy>() for the rule, which is one of those that an S has.
#pragma nv_exec_check_disable
template <typename S, typename Visit>
__host__ __device__ inline auto VisitRule(FindBy by, const Visit& visit) {
  using C = typename S::Compare;
  if constexpr (std::is_same_v<C, float>) {
    if (by == FindBy::kFloor) return visit.template operator()<FindBy::kFloor>();
  }
  if constexpr (std::is_floating_point_v<C>) {
    if (by == FindBy::kCells) return visit.template operator()<FindBy::kCells>();
  }
  if constexpr (std::is_floating_point_v<typename S::Bits>) {
    if (by == FindBy::kWideFloor) return visit.template operator()<FindBy::kWideFloor>();
  }
  if constexpr (std::is_integral_v<C> && sizeof(C) == 4) {
    if (by == FindBy::kLine) return visit.template operator()<FindBy::kLine>();
  }
  if constexpr (sizeof(typename S::Bits) >= 4) {
    if (by == FindBy::kGuess) return visit.template operator()<FindBy::kGuess>();
  }
  return visit.template operator()<FindBy::kKeys>();
}

// The slot of a sample by whatever rule its plan has: for kernels that other work binds, which need
// not be compiled for each rule.
template <typename S>
__device__ inline uint32_t SlotOf(const Rule<typename S::Compare>& rule, typename S::Compare x) {
  constexpr bool kWide = sizeof(typename S::Bits) == 4;
  return VisitRule<S>(rule.bins.by, [&]<FindBy kBy>() { return SlotBy<kBy, kWide>(rule, x); });
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_TYPED_FIND_CUH_
