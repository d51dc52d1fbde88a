// Counts sample by sample, for every type and plan, on every processor.
#include <bit>
#include <cstdint>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

namespace histogram::cpu {
namespace {

constexpr size_t kBlock = 64;  // as typed_avx512.cc has it; not measured apart

// Values of kSteps: kGuess: by the guess; kAny: a search of as many steps as the plan needs;
// kEdges: a search among the edges of a direct plan; else a search of kSteps steps.
constexpr int kGuess = -1, kAny = -2, kEdges = -3;

template <typename S, int kSteps, typename Counts>
void CountBlocks(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count,
                 const std::byte* samples, size_t blocks, Counts& counters) {
  using C = typename S::Compare;
  constexpr size_t kSize = sizeof(typename S::Bits);
  for (size_t b = 0; b < blocks; ++b, samples += kBlock * kSize) {
    FetchAhead<kBlock * kSize>(samples);
    uint32_t slots[kBlock];
    for (size_t i = 0; i < kBlock; ++i) {
      const C x = S::Widen(internal::LoadBits<typename S::Bits>(samples + i * kSize));
      if (x >= bins.lower && x <= bins.upper) {
        if constexpr (kSteps == kGuess) {
          slots[i] = internal::GuessBin(bins, x);
        } else if constexpr (kSteps == kAny) {
          slots[i] = internal::SearchBin(bins, x);
        } else if constexpr (kSteps == kEdges) {
          slots[i] = internal::SearchEdges(bins, x);
        } else {
          slots[i] = internal::SearchBin(bins, x, kSteps);
        }
      } else {
        slots[i] = internal::OutsideSlot(bins, bin_count, x);
      }
    }
    counters.template AddAll<kBlock>(slots);
  }
}

// The counter with the fewest steps for the plan. A plan that needs no step shares that of one
// step.
template <typename S, typename Counts>
auto BlockCounter(const internal::Bins<typename S::Compare>& bins) {
  if (bins.guess.usable()) return CountBlocks<S, kGuess, Counts>;
  if (bins.direct()) return CountBlocks<S, kEdges, Counts>;
  switch (std::bit_width(bins.cells.span_max)) {
    case 0:
    case 1:
      return CountBlocks<S, 1, Counts>;
    case 2:
      return CountBlocks<S, 2, Counts>;
    case 3:
      return CountBlocks<S, 3, Counts>;
    default:
      return CountBlocks<S, kAny, Counts>;
  }
}

}  // namespace

void CountTypedScalar(const internal::PlanData& plan, std::span<const Fragment> fragments,
                      uint64_t* row) {
  internal::VisitSample(plan.type, [&]<typename S>(S) {
    const auto& bins = std::get<internal::Bins<typename S::Compare>>(plan.bins);
    const uint32_t bin_count = plan.binning.bin_count();
    if (bins.reached == 0)
      return CountFragments<S, SIZE_MAX>(bins, bin_count, fragments, row, [](auto&&...) {});
    CountFragments<S, kBlock>(
        bins, bin_count, fragments, row,
        [&]<typename Counts>(const std::byte* samples, size_t blocks, Counts& counts) {
          BlockCounter<S, Counts>(bins)(bins, bin_count, samples, blocks, counts);
        });
  });
}

}  // namespace histogram::cpu
