#include "kernels/cuda/plan/even_bins.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/float_mode.h"
#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

// Sets lower, upper, none and all_below.
void SetBounds(const EvenEdges& edges, TypedBins<double>& typed) {
  typed.lower = edges.at(0);
  typed.upper = edges.upper;
}

void SetBounds(const EvenEdges& edges, TypedBins<float>& typed) {
  typed.lower = LeastFrom(edges.at(0), 0.0F);
  const auto upper = static_cast<float>(edges.upper);
  typed.upper = upper > edges.upper ? internal::Previous(upper) : upper;
  typed.none = typed.upper < typed.lower;
}

template <typename Key>
void SetBounds(const EvenEdges& edges, TypedBins<Key>& typed) {
  const auto zero = static_cast<double>(typed.zero);
  const double end = std::ldexp(1.0, std::numeric_limits<Key>::digits) - zero;
  const double least = std::ceil(edges.at(0)), greatest = std::floor(edges.upper);
  typed.all_below = least >= end;
  typed.none = typed.all_below || greatest < least || greatest < -zero;
  if (typed.all_below) return;
  typed.lower = LeastFrom(least, typed.zero);
  if (greatest < -zero) return;
  typed.upper = greatest >= end ? std::numeric_limits<Key>::max() : LeastFrom(greatest, typed.zero);
}

// Whether the threshold of bin i is at most `upper`.
template <typename C>
bool IsReached(const TypedBins<C>& typed, uint32_t i) {
  const double edge = typed.even.at(i);
  if constexpr (std::is_floating_point_v<C>) {
    return edge <= static_cast<double>(typed.upper);
  } else {
    const double end =
        std::ldexp(1.0, std::numeric_limits<C>::digits) - static_cast<double>(typed.zero);
    const double whole = std::ceil(edge);
    return whole < end && whole <= std::floor(typed.even.upper);
  }
}

template <typename C>
uint32_t CountReached(const TypedBins<C>& typed) {
  uint32_t low = 0, high = typed.bins;  // IsReached(low - 1), !IsReached(high)
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (IsReached(typed, middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename C>
TypedBins<C> MakeBins(SampleType type, const EvenEdges& edges) {
  using Number = typename TypedBins<C>::Guess;
  TypedBins<C> typed;
  typed.even = edges;
  typed.bins = edges.bins;
  typed.zero = KeyFlip(type) == 0 || std::is_floating_point_v<C>
                   ? C{0}
                   : static_cast<C>(uint64_t{1} << (sizeof(C) * 8 - 1));
  SetBounds(edges, typed);
  typed.reached = typed.none ? 0 : CountReached(typed);
  typed.none = typed.reached == 0;
  if (SampleBytes(type) < 4) return typed;
  typed.by = FindBy::kGuess;
  if (typed.none) return typed;  // with `sure` 0: lower and upper may be no bounds
  double from = -edges.lower, greatest = std::max(std::fabs(edges.lower), std::fabs(edges.upper));
  if constexpr (!std::is_floating_point_v<C>) {
    using Signed = std::make_signed_t<C>;
    const auto least = static_cast<C>(typed.lower - typed.zero);
    from = (typed.zero == 0 ? static_cast<double>(least)
                            : static_cast<double>(static_cast<Signed>(least))) -
           edges.lower;
    greatest = static_cast<double>(static_cast<C>(typed.upper - typed.lower));
  }
  const EvenGuess<Number> guess = EvenGuessOf<Number>(edges, from, greatest);
  typed.scale = guess.scale;
  typed.offset = guess.offset;
  typed.sure = guess.sure;
  return typed;
}

}  // namespace

bool EvenBinsFit(SampleType type, uint32_t bins, const DeviceTraits& device) {
  const uint64_t compared = SampleBytes(type) == 8 ? 8 : 4;
  constexpr uint64_t kLine = 32 * sizeof(uint32_t);
  return uint64_t{bins} * (sizeof(uint32_t) + compared) + 2 * kLine <= TableRoom(device);
}

AnyTypedBins MakeEvenBins(SampleType type, const EvenEdges& edges) {
  const internal::FloatMode mode;
  return internal::VisitSample(type, [&]<typename S>(S) -> AnyTypedBins {
    using C = typename S::Compare;
    if constexpr (std::is_floating_point_v<C>) {
      return MakeBins<C>(type, edges);
    } else {
      return MakeBins<internal::KeyBits<C>>(type, edges);
    }
  });
}

}  // namespace histogram::cuda
