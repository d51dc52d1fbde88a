#include "kernels/cuda/plan/even_bins.h"

#include <optional>

#include "kernels/float_mode.h"
#include "kernels/rounded.h"
#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

template <typename C>
TypedBins<C> MakeBins(SampleType type, const EvenEdges& edges) {
  TypedBins<C> typed;
  typed.even = edges;
  typed.bins = edges.bins;
  const std::optional<C> lower = internal::Rounded<C, /*kUp=*/true>(edges.at(0));
  const std::optional<C> upper = internal::Rounded<C, /*kUp=*/false>(edges.upper);
  typed.all_below = !lower.has_value();
  if (lower.has_value()) typed.lower = *lower;
  if (lower.has_value() && upper.has_value() && *lower <= *upper) {
    typed.upper = *upper;
    // Bins below `low` have a threshold that is at most `upper`, bins from `high` on have none.
    uint32_t low = 0, high = edges.bins;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const std::optional<C> threshold = internal::Rounded<C, /*kUp=*/true>(edges.at(middle));
      const bool reached = threshold.has_value() && *threshold <= *upper;
      (reached ? low : high) = reached ? middle + 1 : middle;
    }
    typed.reached = low;
  }
  typed.none = typed.reached == 0;
  if (SampleBytes(type) < 4) return typed;
  typed.by = FindBy::kGuess;
  if (typed.none) return typed;  // with `sure` 0: lower and upper may be no bounds
  SetEvenGuess(typed, static_cast<double>(*lower));
  return typed;
}

}  // namespace

bool EvenBinsFit(SampleType type, uint32_t bins, const DeviceTraits& device) {
  const uint64_t compared = SampleBytes(type) == 8 ? 8 : 4;
  constexpr uint64_t kLine = 32 * sizeof(uint32_t);
  const uint64_t bytes = uint64_t{bins} * (sizeof(uint32_t) + compared);
  return bytes + 2 * kLine + kEvenStaticBytes <= TableRoom(device);
}

AnyTypedBins MakeEvenBins(SampleType type, const EvenEdges& edges) {
  const internal::FloatMode mode;
  return internal::VisitSample(type, [&]<typename S>(S) -> AnyTypedBins {
    return MakeBins<typename S::Compare>(type, edges);
  });
}

}  // namespace histogram::cuda
