#include "kernels/cuda/typed_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace histogram::cuda {
namespace {

// Beyond that a position's nearest integer no longer fits the low bits of a float (see
// typed_table.cu), and its rounding alone would be a large part of a bin.
constexpr uint64_t kGuessBinsMax = uint64_t{1} << 20;
constexpr double kErrorMax = 0.25;  // of a bin

constexpr uint32_t kCellsLog2Max = 14;

template <typename C>
C Previous(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::nextafter(x, -std::numeric_limits<C>::infinity());
  } else {
    return static_cast<C>(x - 1);
  }
}

// The furthest that a sample lies outside its bin, in bins; infinite where a position is no number.
template <typename C>
double ErrorOf(const Guess<C>& guess, std::span<const C> thresholds, C upper) {
  const C lower = thresholds.front();
  const auto position = [&](C x) {
    return static_cast<double>(Position<C>(x, lower, guess.scale, guess.offset));
  };
  double error = 0;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const bool last = i + 1 == thresholds.size();
    if (!last && thresholds[i] == thresholds[i + 1]) continue;
    const double middle = static_cast<double>(i);
    const double low = position(thresholds[i]) - (middle - 0.5);
    const double high = (middle + 0.5) - position(last ? upper : Previous(thresholds[i + 1]));
    if (!(std::isfinite(low) && std::isfinite(high)))
      return std::numeric_limits<double>::infinity();
    error = std::max({error, -low, -high});
  }
  return error;
}

}  // namespace

template <typename C>
Guess<C> ProveGuess(std::span<const C> thresholds, C upper, double first_edge, double last_edge) {
  using Number = typename TypedBins<C>::Guess;
  if (thresholds.size() > kGuessBinsMax) return {};
  const double scale = static_cast<double>(thresholds.size()) / (last_edge - first_edge);
  // An integer's position is taken from the lowest one.
  double from = -first_edge;
  if constexpr (!std::is_floating_point_v<C>) {
    from = static_cast<double>(thresholds.front()) - first_edge;
  }
  Guess<C> best;
  double least = kErrorMax;
  // Integers may be moved by half of one: those on an edge are then in the middle of their share.
  for (const double shift : {0.0, 0.5}) {
    if (std::is_floating_point_v<C> && shift != 0) break;
    Guess<C> guess;
    guess.scale = static_cast<Number>(scale);
    guess.offset = static_cast<Number>((from + shift) * scale - 0.5);
    const double error = ErrorOf(guess, thresholds, upper);
    if (!(error < least)) continue;
    least = error;
    best = guess;
    best.sure = std::nextafter(static_cast<Number>(0.5 - error), Number{0});
  }
  return best;
}

template <typename C>
Cells MakeCells(std::span<const C> thresholds, C upper) {
  const auto lowest = KeyOf(thresholds.front());
  const auto span = static_cast<uint64_t>(KeyOf(upper) - lowest);
  Cells cells;
  cells.shift = static_cast<uint32_t>(
      std::max(0, static_cast<int>(std::bit_width(span)) - static_cast<int>(kCellsLog2Max)));
  const uint64_t count = (span >> cells.shift) + 1;
  cells.candidates.resize(count + 1);
  // The bin of the least key of a cell is the last one whose threshold is not above it.
  size_t bin = 0;
  for (uint64_t c = 0; c < count; ++c) {
    const uint64_t least = c << cells.shift;
    while (bin + 1 < thresholds.size() &&
           static_cast<uint64_t>(KeyOf(thresholds[bin + 1]) - lowest) <= least) {
      ++bin;
    }
    cells.candidates[c] = static_cast<uint32_t>(bin);
  }
  cells.candidates[count] = static_cast<uint32_t>(thresholds.size() - 1);
  return cells;
}

#define HISTOGRAM_TYPED_PLAN(C)                                        \
  template Guess<C> ProveGuess(std::span<const C>, C, double, double); \
  template Cells MakeCells(std::span<const C>, C)
HISTOGRAM_TYPED_PLAN(float);
HISTOGRAM_TYPED_PLAN(double);
HISTOGRAM_TYPED_PLAN(uint32_t);
HISTOGRAM_TYPED_PLAN(int32_t);
HISTOGRAM_TYPED_PLAN(uint64_t);
HISTOGRAM_TYPED_PLAN(int64_t);
#undef HISTOGRAM_TYPED_PLAN

}  // namespace histogram::cuda
