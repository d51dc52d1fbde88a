#include "kernels/cuda/plan/bin_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

// A position beyond it no longer fits the low bits of a float (LowBits in typed.h), and its
// rounding alone is a large part of a bin.
constexpr uint32_t kPositionBinsMax = 1U << 20;
// Of a bin. A guess that may err by more is not used. Not measured apart.
constexpr double kErrorMax = 0.25;
constexpr int64_t kUnknown = -2;

// Even bins: that of x is the integer part of (x - from) * scale.
struct Line {
  explicit Line(const Binning& binning) : edges(binning.ComputeEdges()) {
    from = edges.front();
    scale = static_cast<double>(binning.bin_count()) / (edges.back() - from);
  }
  std::vector<double> edges;
  double from = 0, scale = 0;
};

// --- FindBy::kFloor

// The integer part of x * scale + offset as real numbers; NaN where this does not tell.
double FloorOf(double x, double scale, double offset) {
  double floor = std::floor(std::fma(x, scale, offset));
  // The sum was rounded to the integer, or is at most a bin above it. Which one shows in the exact
  // x * scale - (floor - offset), of which the second term is a sum of two numbers.
  const double wanted = floor - offset;
  const double part = wanted - floor;
  const double left_out = (floor - (wanted - part)) + (-offset - part);
  const double above = std::fma(x, scale, -wanted);
  if (above != 0 && std::fabs(above) <= 2 * std::fabs(left_out)) return std::nan("");
  if (above < 0 || (above == 0 && left_out > 0)) floor -= 1;
  return floor;
}

// A multiply-add rounded down, of F.
template <typename F>
struct Steps {
  F scale = 0, offset = 0;
};

// The bin that the device finds for x; -1: none below `reached`.
template <typename F, typename C>
int64_t FloorBin(C x, const TypedBins<C>& typed, Steps<F> steps) {
  // The low bits of a double tell no bin of a sample outside.
  if (sizeof(F) == 8 && !(x >= typed.lower && x <= typed.upper)) return -1;
  const double floor = FloorOf(x, steps.scale, steps.offset);
  if (std::isnan(floor) && std::isfinite(x)) return kUnknown;
  return floor >= 0 && floor < typed.reached ? static_cast<int64_t>(floor) : -1;
}

// The device settles a sample without a bin: inside, it is in the last one. A position grows with
// its sample, so both ends of each bin tell of all samples.
template <typename F, typename C>
bool IsProven(const internal::Bins<C>& bounds, const TypedBins<C>& typed, Steps<F> steps) {
  if (!std::isfinite(steps.scale) || !std::isfinite(steps.offset)) return false;
  const auto last = static_cast<int64_t>(bounds.thresholds.size()) - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const C threshold = bounds.thresholds[static_cast<size_t>(i)];
    if (FloorBin(threshold, typed, steps) != i) return false;
    if (FloorBin(internal::Previous(threshold), typed, steps) != i - 1) return false;
  }
  const C after = std::nextafter(bounds.upper, std::numeric_limits<C>::infinity());
  return FloorBin(after, typed, steps) == -1;
}

// Beside an edge, samples of 16 bits have gaps: more guesses are right for them.
bool IsProvenForPatterns(const Plan& plan, const internal::Bins<float>& bounds,
                         const TypedBins<float>& typed) {
  const std::vector<uint32_t>& slots = plan.data().slot_of_pattern;
  for (size_t pattern = 0; pattern < slots.size(); ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const auto x = static_cast<float>(internal::ValueOfBits(bits, plan.type()));
    const int64_t bin = FloorBin(x, typed, Steps<float>{typed.scale, typed.offset});
    const bool settled_as_last = bin < 0 && x > bounds.thresholds.back() && x <= bounds.upper;
    if (bin == kUnknown) return false;
    const int64_t slot = settled_as_last ? int64_t{typed.reached} - 1 : bin;
    if (slot < 0 ? slots[pattern] < typed.bins : slots[pattern] != slot) return false;
  }
  return true;
}

bool MakeFloor(const Plan& plan, const internal::Bins<float>& bounds, const Line& line,
               TypedBins<float>& typed) {
  typed.scale = static_cast<float>(line.scale);
  typed.offset = static_cast<float>(-line.from * line.scale);
  if (SampleBytes(plan.type()) == sizeof(float)) {
    return IsProven(bounds, typed, Steps<float>{typed.scale, typed.offset});
  }
  return std::isfinite(typed.scale) && std::isfinite(typed.offset) &&
         IsProvenForPatterns(plan, bounds, typed);
}

// An f32 has half the digits of a double, so rounding matters only to those on an edge. Moved up by
// far less than a sample's own rounding, the line is right where all of these are in the bin above.
template <typename C>
bool MakeWideFloor(const internal::Bins<C>& bounds, const Line& line, TypedBins<C>& typed) {
  const double offset = -line.from * line.scale;
  for (const double move : {0.0, typed.bins * 0x1p-46}) {
    if (!IsProven(bounds, typed, Steps<double>{line.scale, offset + move})) continue;
    typed.wide_scale = line.scale;
    typed.wide_offset = offset + move;
    return true;
  }
  return false;
}

// --- FindBy::kLine

// Whether all samples from typed.lower on, as far as typed.sure_span, get their bins.
template <typename C>
bool IsProven(const Plan& plan, const internal::Bins<C>& bounds, const TypedBins<C>& typed) {
  if (SampleBytes(plan.type()) < 4) {
    const std::vector<uint32_t>& slots = plan.data().slot_of_pattern;
    for (size_t pattern = 0; pattern < slots.size(); ++pattern) {
      const auto x = static_cast<C>(internal::ValueOfBits(pattern, plan.type()));
      const uint32_t from = Distance(x, typed.lower);
      if (x < typed.lower || from > typed.sure_span) continue;
      if (LineBin<false>(from, typed.slope, typed.intercept) != slots[pattern]) return false;
    }
    return true;
  }
  // The line grows with the sample, so both ends of each bin tell of all samples.
  const auto is = [&](uint32_t from, size_t bin) {
    return LineBin<true>(from, typed.slope, typed.intercept) == bin;
  };
  const std::vector<C>& thresholds = bounds.thresholds;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const uint32_t from = Distance(thresholds[i], typed.lower);
    if (!is(from, i) || (i > 0 && !is(from - 1, i - 1))) return false;
  }
  return is(typed.sure_span, thresholds.size() - 1);
}

// The least sample of a bin lies above its edge by a share of a sample, 0 to 1. The line is moved
// up so that the edges come to lie in the middle between all such samples and those before.
template <typename C>
bool MakeLine(const Plan& plan, const internal::Bins<C>& bounds, const Line& line,
              TypedBins<C>& typed) {
  const bool narrow = SampleBytes(plan.type()) < 4;
  TypedBins<C> tried = typed;
  if (narrow) {
    const auto patterns = static_cast<C>(plan.data().slot_of_pattern.size());
    const C least = std::is_signed_v<C> ? -(patterns / 2) : 0;
    tried.lower = std::max(bounds.lower, least);
    tried.upper = std::min(bounds.upper, least + (patterns - 1));
    if (tried.upper < tried.lower) return false;
  }
  double least = 1, most = 0;
  for (size_t i = 0; i < bounds.thresholds.size(); ++i) {
    const double share = static_cast<double>(bounds.thresholds[i]) - line.edges[i];
    if (share < 0 || share > 1) continue;  // of an edge beyond the type
    least = std::min(least, share);
    most = std::max(most, share);
  }
  const double first = static_cast<double>(tried.lower) - line.from + (1 - most - least) / 2;
  // Narrow samples take the upper half of the slope, rounded.
  const double slope = std::min(line.scale * 0x1p64 + (narrow ? 0x1p31 : 0), 0x1p64);
  const double intercept = first * line.scale * 0x1p32;
  if (!(line.scale <= 1 && intercept >= 0 && intercept < 0x1p62)) return false;
  tried.slope = slope == 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(slope);
  tried.intercept = static_cast<uint64_t>(intercept);
  // A sample on the last edge is in the last bin.
  tried.sure_span = Distance(tried.upper, tried.lower);
  if (tried.sure_span > 0 && static_cast<double>(tried.upper) == line.edges.back()) {
    --tried.sure_span;
  }
  if (!IsProven(plan, bounds, tried)) return false;
  typed = tried;
  return true;
}

// --- FindBy::kGuess

// How far outside [i - 0.5, i + 0.5] the position of a sample of bin i can lie, in bins; infinite
// if a position is not finite. Positions grow with their samples, so this looks at the least and
// the greatest sample of each bin only. If the result is less than a quarter, a guess is off by one
// bin at most, and only for samples that lie no further than the result from an edge.
template <typename C>
double ErrorOf(const internal::Bins<C>& bounds, const TypedBins<C>& typed) {
  const std::vector<C>& thresholds = bounds.thresholds;
  const auto position = [&](C x) {
    return static_cast<double>(Position<C>(x, bounds.lower, typed.scale, typed.offset));
  };
  double error = 0;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const bool last = i + 1 == thresholds.size();
    if (!last && thresholds[i] == thresholds[i + 1]) continue;
    const auto middle = static_cast<double>(i);
    const double low = position(thresholds[i]) - (middle - 0.5);
    const double high =
        (middle + 0.5) - position(last ? bounds.upper : internal::Previous(thresholds[i + 1]));
    if (!std::isfinite(low) || !std::isfinite(high)) return std::numeric_limits<double>::infinity();
    error = std::max({error, -low, -high});
  }
  return error;
}

template <typename C>
bool MakeGuess(const internal::Bins<C>& bounds, const Line& line, TypedBins<C>& typed) {
  using Number = typename TypedBins<C>::Guess;
  // An integer's position is taken from the lowest one.
  double from = -line.from;
  if constexpr (!std::is_floating_point_v<C>) from += static_cast<double>(bounds.lower);
  double least = kErrorMax;
  TypedBins<C> tried = typed;
  // Integers may be moved by a half: those on an edge are then in the middle of their share.
  for (const double shift : {0.0, 0.5}) {
    if (std::is_floating_point_v<C> && shift != 0) break;
    tried.scale = static_cast<Number>(line.scale);
    tried.offset = static_cast<Number>((from + shift) * line.scale - 0.5);
    const double error = ErrorOf(bounds, tried);
    if (!(error < least)) continue;
    least = error;
    tried.sure = std::nextafter(static_cast<Number>(0.5 - error), Number{0});
    typed = tried;
  }
  return least < kErrorMax;
}

// --- FindBy::kCells

constexpr uint32_t kCellBinsMax = 16384;  // more leave too little shared memory for their cells
// More cells leave fewer bins in a cell, and less shared memory for copies of the table. With cells
// f32 into 256 uneven bins reads at 63 % of the ceiling instead of 44, into 4,096 at 59 instead of
// 31 (H200, 7ec78f1); other numbers of cells were not measured.
constexpr uint32_t kCellsOfBin = 4;

}  // namespace

template <typename C>
std::vector<uint16_t> MakeCells(const internal::Bins<C>& bounds, TypedBins<C>& typed) {
  if (typed.reached > kCellBinsMax) return {};
  typed.cell_count = std::min(kCellsMax, std::max(64U, typed.reached * kCellsOfBin));
  const double scale = (typed.cell_count - 1) /
                       (static_cast<double>(bounds.upper) - static_cast<double>(bounds.lower));
  typed.scale = static_cast<C>(scale);
  typed.offset = static_cast<C>(-static_cast<double>(bounds.lower) * scale);
  // Positions from -0.5 on name a cell.
  const C first = Position<C>(bounds.lower, bounds.lower, typed.scale, typed.offset);
  const C last = Position<C>(bounds.upper, bounds.lower, typed.scale, typed.offset);
  if (!(first > C{-0.5} && last < static_cast<C>(typed.cell_count) - C{0.5})) return {};
  std::vector<uint16_t> cells(typed.cell_count + 1);
  uint32_t bin = 0, crowded = 0;
  for (uint32_t cell = 0; cell < typed.cell_count; ++cell) {
    cells[cell] = static_cast<uint16_t>(bin);
    while (bin + 1 < typed.reached && CellOf(bounds.thresholds[bin + 1], typed) == cell) ++bin;
    if (bin > cells[cell] + 1U) {
      cells[cell] |= kCellCrowded;
      ++crowded;
    }
  }
  cells.back() = static_cast<uint16_t>(bin);
  if (crowded * 8 > typed.reached) return {};
  return cells;
}

template <typename C>
FindBy ChooseRule(const Plan& plan, const internal::Bins<C>& bounds, TypedBins<C>& typed) {
  if (plan.bin_count() > kPositionBinsMax) return FindBy::kKeys;
  const Line line(plan.binning());
  if constexpr (std::is_same_v<C, float>) {
    if (MakeFloor(plan, bounds, line, typed)) return FindBy::kFloor;
    if (SampleBytes(plan.type()) == 2) return FindBy::kKeys;
  }
  if constexpr (std::is_floating_point_v<C>) {
    if (MakeWideFloor(bounds, line, typed)) return FindBy::kWideFloor;
  }
  if constexpr (std::is_integral_v<C> && sizeof(C) == 4) {
    return MakeLine(plan, bounds, line, typed) ? FindBy::kLine : FindBy::kKeys;
  } else {
    return MakeGuess(bounds, line, typed) ? FindBy::kGuess : FindBy::kKeys;
  }
}

template FindBy ChooseRule(const Plan&, const internal::Bins<float>&, TypedBins<float>&);
template FindBy ChooseRule(const Plan&, const internal::Bins<double>&, TypedBins<double>&);
template FindBy ChooseRule(const Plan&, const internal::Bins<uint32_t>&, TypedBins<uint32_t>&);
template FindBy ChooseRule(const Plan&, const internal::Bins<int32_t>&, TypedBins<int32_t>&);
template FindBy ChooseRule(const Plan&, const internal::Bins<uint64_t>&, TypedBins<uint64_t>&);
template FindBy ChooseRule(const Plan&, const internal::Bins<int64_t>&, TypedBins<int64_t>&);
template std::vector<uint16_t> MakeCells(const internal::Bins<float>&, TypedBins<float>&);
template std::vector<uint16_t> MakeCells(const internal::Bins<double>&, TypedBins<double>&);

}  // namespace histogram::cuda
