// How devices find bins: the quickest rule that is proven right for a plan (FindBy in typed.h).
//
// Functions without state; thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_PLAN_BIN_RULES_H_
#define HISTOGRAM_KERNELS_CUDA_PLAN_BIN_RULES_H_

#include <histogram/plan.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// The quickest rule of even bins that is proven, with its numbers in `typed`; FindBy::kKeys: none
// is. REQUIRES: `bounds` are the plan's; typed has its lower, upper, bins and reached.
template <typename C>
FindBy ChooseRule(const Plan& plan, const internal::Bins<C>& bounds, TypedBins<C>& typed);

// The table of FindBy::kCells, of at most kCellsMax + 1 entries, with its numbers in `typed`: cells
// of equal width. Empty where many hold several thresholds. C is float or double.
inline constexpr uint32_t kCellsMax = 16384;
template <typename C>
std::vector<uint16_t> MakeCells(const internal::Bins<C>& bounds, TypedBins<C>& typed);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_PLAN_BIN_RULES_H_
