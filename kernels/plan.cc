#include <histogram/plan.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/float_mode.h"
#include "kernels/plan_data.h"
#include "kernels/rounded.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

namespace histogram {
namespace internal {

namespace {

// Whether all samples of cell c, and of those above, are at least the threshold.
template <typename C>
bool Reaches(const Bins<C>& bins, const Cells& cells, C threshold, uint64_t c) {
  return threshold == bins.lower || CellOf(bins, cells, Previous(threshold)) < c;
}

// Cells without `first`.
template <typename C>
Cells ShapeCells(const Bins<C>& bins, double knee, int count_log2) {
  Cells cells;
  cells.knee = knee;
  const auto width = static_cast<int>(std::bit_width(CellOf(bins, cells, bins.upper)));
  cells.shift = static_cast<uint32_t>(std::max(0, width - count_log2));
  uint64_t last_cell = 0;
  uint32_t span = 0;
  for (const C threshold : bins.thresholds) {
    const uint64_t cell = CellOf(bins, cells, threshold);
    if (cell != last_cell) span = 0;
    if (!Reaches(bins, cells, threshold, cell)) ++span;
    cells.span_max = std::max(cells.span_max, span);
    last_cell = cell;
  }
  return cells;
}

template <typename C>
void FillCells(const Bins<C>& bins, Cells& cells) {
  const std::vector<C>& thresholds = bins.thresholds;
  const uint64_t count = CellOf(bins, cells, bins.upper) + 1;
  cells.first.resize(count + 1);
  uint64_t cell = 0;
  const auto fill_up_to = [&](uint64_t end, size_t bin) {
    for (; cell < end; ++cell) cells.first[cell] = static_cast<uint32_t>(bin);
  };
  // All samples of a cell reach a threshold if the sample before that lies in an earlier cell.
  for (size_t i = 1; i < thresholds.size(); ++i) {
    if (thresholds[i] == bins.lower) continue;
    fill_up_to(CellOf(bins, cells, Previous(thresholds[i])) + 1, i - 1);
  }
  fill_up_to(count + 1, thresholds.size() - 1);
}

// Cells that leave few steps to a search. A small table is tried first.
template <typename C>
Cells ChooseCells(const Bins<C>& bins) {
  const double widest = std::max(std::fabs(static_cast<double>(bins.lower)),
                                 std::fabs(static_cast<double>(bins.upper)));
  std::vector<double> knees = {0, 1, std::floor(std::ldexp(widest, -8))};
  if constexpr (std::is_floating_point_v<C>) {
    knees = {widest, 0, std::ldexp(widest, -8), std::ldexp(widest, -16), std::ldexp(widest, -32)};
  }
  const size_t count = bins.thresholds.size();
  const size_t enough = std::max<size_t>(1, count >> (kCellsLog2Max - 2));
  const int small_log2 = std::min(kCellsLog2Max, static_cast<int>(std::bit_width(count)) + 2);
  std::optional<Cells> best;
  for (const int count_log2 : {small_log2, kCellsLog2Max}) {
    for (const double knee : knees) {
      if (best.has_value() && best->span_max <= enough) break;
      Cells cells = ShapeCells(bins, knee, count_log2);
      if (!best.has_value() || cells.span_max < best->span_max) best = std::move(cells);
    }
  }
  FillCells(bins, *best);
  return *std::move(best);
}

}  // namespace

template <typename C>
Cells MakeKeyCells(const Bins<C>& bins) {
  Cells cells = ShapeCells(bins, 0, kCellsLog2Max);
  FillCells(bins, cells);
  return cells;
}

template Cells MakeKeyCells(const Bins<float>&);
template Cells MakeKeyCells(const Bins<double>&);
template Cells MakeKeyCells(const Bins<uint32_t>&);
template Cells MakeKeyCells(const Bins<int32_t>&);
template Cells MakeKeyCells(const Bins<uint64_t>&);
template Cells MakeKeyCells(const Bins<int64_t>&);

namespace {

// A position is converted to an integer of 32 bits.
constexpr double kPositionMax = 0x1p30;
// Of a guess. Processors multiply by numbers below DBL_MIN ten times as slowly.
constexpr double kScaleMin = 1e-300;

// --- The guess and its proof

// Sets guess.error and guess.mend (see Guess).
template <typename C>
void Prove(const Bins<C>& bins, Guess& guess) {
  const auto position = [&](C x) {
    return Spread(x, bins.lower, guess.half_ulp) * guess.scale + guess.offset;
  };
  double error = 0;
  size_t wrong = 0;  // bins with a sample whose guess is wrong
  const size_t count = bins.thresholds.size();
  for (size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    if (!last && bins.thresholds[i] == bins.thresholds[i + 1]) continue;
    const C greatest = last ? bins.upper : Previous(bins.thresholds[i + 1]);
    const double below = static_cast<double>(i) - position(bins.thresholds[i]);
    // Positions of the last bin's samples may be too large: guesses are clamped to the last bin.
    const double above = last ? -1 : position(greatest) - static_cast<double>(i + 1);
    if (!std::isfinite(below) || !(std::fabs(position(greatest)) < kPositionMax)) return;
    error = std::max({error, below, above});
    // Truncation puts positions in (-1, 0) into the first bin.
    const bool from_below = below <= 0 || (i == 0 && below < 1);
    if (from_below && above < 0) continue;
    guess.mend =
        ++wrong == 1 && from_below && above < 1 ? static_cast<uint32_t>(i + 1) : Guess::kNone;
  }
  guess.error = wrong == 0 ? Guess::kProven : error;
}

// If all thresholds follow from the first edge and the step between edges, sets both in `guess`.
template <typename C>
void ProveEdges(const Bins<C>& bins, const EdgeRule& edges, Guess& guess) {
  if (std::is_integral_v<C> && sizeof(C) == 8) return;
  const double first = edges.at(0);
  const double step = (edges.at(edges.bins) - first) / edges.bins;
  for (size_t i = 0; i < bins.thresholds.size(); ++i) {
    const double edge = static_cast<double>(i) * step + first;
    if (Rounded<C, /*kUp=*/true>(edge) != bins.thresholds[i]) return;
  }
  guess.first_edge = first;
  guess.step = step;
}

template <typename C>
Guess ProveGuess(const Bins<C>& bins, const EdgeRule& edges) {
  const double lower = edges.at(0), upper = edges.at(edges.bins);
  const double scale = edges.bins / (upper - lower);
  Guess best;
  if (!(scale >= kScaleMin)) return best;
  double from = -lower;
  if constexpr (!std::is_floating_point_v<C>) from = static_cast<double>(bins.lower) - lower;
  // An integer is moved by a half. Then samples on edges that are integers keep a distance from
  // them.
  for (const bool moved : {false, true}) {
    if (std::is_same_v<C, double> && moved) break;
    const double shift = moved && std::is_integral_v<C> ? 0.5 : 0;
    Guess guess{.scale = scale,
                .offset = (from + shift) * scale,
                .half_ulp = moved && std::is_same_v<C, float> ? kHalfUlp : 0};
    Prove(bins, guess);
    if (best.proven() || (best.mendable() && !guess.proven())) break;
    if (guess.error <= best.error || guess.mendable()) best = guess;
  }
  if (best.usable() && !best.proven() && !best.mendable()) ProveEdges(bins, edges, best);
  return best;
}

// The farthest that a listed edge lies from the even edge of its number. Ends early where that is
// more than a guess allows.
double Unevenness(const EdgeRule& edges, double lower, double step) {
  constexpr uint32_t kBlock = 64;
  double farthest = 0;
  for (uint32_t i = 0; i < edges.bins && farthest < step; i += kBlock) {
    const uint32_t end = std::min(i + kBlock, edges.bins);
    for (uint32_t k = i; k < end; ++k) {
      farthest = std::max(farthest, std::fabs(edges.listed[k] - (k * step + lower)));
    }
  }
  return farthest;
}

// A guess for edges that are even, or nearly so, whose error is bounded without a look at samples.
// In units of 2^-53 of the ends' larger magnitude, rounding moves a position by at most 10 of them
// times the scale, and an even edge by 8; 32 leaves room. Numbers below DBL_MIN round otherwise:
// then it is not usable.
template <typename C>
Guess BoundGuess(const Bins<C>& bins, const EdgeRule& edges) {
  Guess guess;
  const double lower = edges.at(0), upper = edges.at(edges.bins);
  const double scale = edges.bins / (upper - lower), step = (upper - lower) / edges.bins;
  if (!(step >= std::numeric_limits<double>::min() && scale >= kScaleMin)) return guess;
  double from = -lower;
  if constexpr (!std::is_floating_point_v<C>) from = static_cast<double>(bins.lower) - lower;
  guess.scale = scale;
  guess.offset = from * scale;
  guess.error =
      std::max(std::fabs(lower), std::fabs(upper)) * scale * 0x1p-48 + edges.slack * scale;
  if (edges.listed != nullptr) guess.error += Unevenness(edges, lower, step) * scale;
  if constexpr (std::is_same_v<C, float>) guess.error += kFromZero * scale;
  if (!guess.usable() || (std::is_integral_v<C> && sizeof(C) == 8)) return guess;
  if (edges.listed != nullptr || edges.slack > 0) return guess;
  guess.first_edge = lower;
  guess.step = edges.step;
  return guess;
}

template <typename C>
Bins<C> MakeBins(const EdgeRule& edges, bool tables) {
  Bins<C> bins;
  const std::optional<C> upper = Rounded<C, /*kUp=*/false>(edges.at(edges.bins));
  const std::optional<C> lower = Rounded<C, /*kUp=*/true>(edges.at(0));
  bins.all_below = !lower.has_value();
  if (bins.all_below) return bins;
  bins.lower = *lower;
  // Without `upper` every value of C is above the last edge, and none is < lower.
  bins.upper = upper.value_or(*lower);
  if (!upper.has_value() || *upper < *lower) return bins;
  if (!tables) {
    bins.reached = edges.bins;
    bins.edges = edges;
    bins.guess = BoundGuess(bins, edges);
    return bins;
  }
  bins.thresholds.reserve(edges.bins);
  for (uint32_t i = 0; i < edges.bins; ++i) {
    const std::optional<C> least = Rounded<C, /*kUp=*/true>(edges.at(i));
    if (!least.has_value() || *least > bins.upper) break;
    bins.thresholds.push_back(*least);
  }
  bins.reached = static_cast<uint32_t>(bins.thresholds.size());
  bins.guess = ProveGuess(bins, edges);
  if (!bins.guess.usable()) bins.cells = ChooseCells(bins);
  return bins;
}

// The slot of each bit pattern. Walks samples in ascending order (NaN at both ends), in which bins
// ascend too.
template <typename S>
std::vector<uint32_t> SlotsOfPatterns(const Bins<typename S::Compare>& bins, uint32_t bin_count) {
  using C = typename S::Compare;
  using K = decltype(KeyedFor<S>());
  const std::vector<C>& thresholds = bins.thresholds;
  std::vector<uint32_t> slots(size_t{1} << K::kBits);
  uint32_t bin = 0;
  for (uint32_t key = 0; key < slots.size(); ++key) {
    const auto pattern = K::BitsOf(static_cast<typename K::Bits>(key));
    const C x = S::Widen(static_cast<typename S::Bits>(pattern));
    if (thresholds.empty() || !(x >= bins.lower && x <= bins.upper)) {
      slots[pattern] = OutsideSlot(bins, bin_count, x);
      continue;
    }
    while (bin + 1 < thresholds.size() && x >= thresholds[bin + 1]) ++bin;
    slots[pattern] = bin;
  }
  return slots;
}

}  // namespace
}  // namespace internal

const internal::PlanData& Plan::OfEachByte() {
  static const internal::PlanData& data = *new internal::PlanData(Binning::Identity());
  return data;
}

Plan Plan::OfBytes(const Binning& binning) {
  if (binning.is_identity()) return {};
  return Plan(std::make_shared<internal::PlanData>(binning));
}

Result<Plan> Plan::Compile(const Binning& binning, SampleType type, bool tables) {
  if (!binning.has_edges()) {
    return Error{.code = ErrorCode::kBadBinning,
                 .message =
                     "binning has no edges: alphabet and byte_table are of bytes, and a plan "
                     "counts samples of type " +
                     std::string(NameOf(type)) + " between edges",
                 .field = "binning"};
  }
  const internal::FloatMode mode;
  auto data = std::make_shared<internal::PlanData>(binning, type, tables);
  internal::VisitSample(type, [&]<typename S>(S) {
    const internal::EdgeRule& edges = data->binning.edge_rule();
    auto bins = internal::MakeBins<typename S::Compare>(edges, tables);
    if constexpr (sizeof(typename S::Bits) <= 2) {
      if (tables) data->slot_of_pattern = internal::SlotsOfPatterns<S>(bins, binning.bin_count());
    }
    data->bins = std::move(bins);
  });
  return Plan(std::move(data));
}

Result<Plan> Plan::Make(const Binning& binning, SampleType type) {
  return Compile(binning, type, /*tables=*/true);
}

Result<Plan> Plan::Direct(const Binning& binning, SampleType type) {
  return Compile(binning, type, /*tables=*/false);
}

Result<Plan> Plan::MakeFor(const Binning& binning, SampleType type, uint64_t samples) {
  if (type == SampleType::kU8) return OfBytes(binning);
  Result<Plan> direct = Direct(binning, type);
  return direct.ok() && direct->TablesPay(samples) ? Make(binning, type) : direct;
}

bool Plan::TablesPay(uint64_t samples) const {
  assert(binning().has_edges());
  // So many samples save what tables cost: by the bin, and besides. Measured on a Zen processor
  // with AVX2. There a guess that is nearly always sure counts as fast without tables; but
  // integers of 64 bits on edges, and all of them with AVX-512, count faster with them.
  const size_t bytes = SampleBytes(type());
  const bool floats = KindOf(type()) == SampleKind::kFloat, long_integers = !floats && bytes == 8;
  const double error = std::visit([](const auto& bins) { return bins.guess.error; }, data().bins);
  const bool guess = error < internal::Guess::kErrorMax, sure = error < 0x1p-10;
  const uint64_t bins = bin_count();
  if (bytes <= 2) return samples > bins * (guess ? 2 : 1) + (uint64_t{1} << 8 * bytes) / 4;
  if (guess) return samples > bins * (long_integers ? 4 : sure ? 64 : 8);
  // A search, whose steps grow with the logarithm of the bins (a Xeon with AVX-512: tables of
  // floats take some 110 ns a bin, of integers 45, and a step without them 4 to 12).
  return samples > bins * (floats ? 32 : 20) / std::bit_width(bins) + 1024;
}

SampleType Plan::type() const { return data().type; }
uint32_t Plan::bin_count() const { return data().binning.bin_count(); }
const Binning& Plan::binning() const { return data().binning; }

uint32_t Plan::counter_count() const {
  return data().counts_values ? kByteValues : internal::SlotCount(bin_count());
}
bool Plan::counts_values() const { return data().counts_values; }

bool Plan::has_tables() const { return data().has_tables; }

std::string_view Plan::family() const {
  if (data().counts_values) return "values";
  if (!data().has_tables) return "direct";
  if (!data().slot_of_pattern.empty()) return "patterns";
  return std::visit([](const auto& bins) { return bins.guess.usable() ? "guess" : "key"; },
                    data().bins);
}

}  // namespace histogram
