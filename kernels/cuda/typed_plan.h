// How a device finds the bins of a plan: the multiply-add and its proof, or the table of cells.
//
// Host code and plain data; thread-safe.
#ifndef HISTOGRAM_CUDA_TYPED_PLAN_H_
#define HISTOGRAM_CUDA_TYPED_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// A multiply-add that finds bins, where one was proven.
template <typename C>
struct Guess {
  typename TypedBins<C>::Guess scale = 0, offset = 0;
  typename TypedBins<C>::Guess sure = 0;  // see TypedBins; 0: none was proven
};

// Looks at the least and the greatest sample of each bin. The position f is monotone, so no sample
// of bin i lies further outside [i - 0.5, i + 0.5] than one of these two. Where the furthest of all
// is less than a quarter of a bin away, the guess is off by one at most, and only within that
// distance of an edge.
//
// `thresholds` hold the least sample of each bin, non-decreasing; two that are equal have an empty
// bin between them. `upper` is the greatest sample of the last bin. `first_edge` and `last_edge`
// are the ends of the binning.
template <typename C>
Guess<C> ProveGuess(std::span<const C> thresholds, C upper, double first_edge, double last_edge);

// For samples by their key: cell c holds those with (key - key of the lowest) >> shift == c, which
// are in bins [candidates[c], candidates[c + 1]].
struct Cells {
  uint32_t shift = 0;
  std::vector<uint32_t> candidates;
};
template <typename C>
Cells MakeCells(std::span<const C> thresholds, C upper);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_TYPED_PLAN_H_
