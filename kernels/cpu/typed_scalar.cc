// Counts sample by sample, for every type and plan, on every processor.
#include <bit>
#include <optional>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

namespace histogram::cpu {
namespace {

constexpr size_t kBlock = 64;  // as typed_avx512.cc has it; not measured apart

// Values of kSteps: kGuess: by the guess; kAny: a search of as many steps as the plan needs;
// kEdges: a search among the edges of a direct plan; else a search of kSteps steps.
constexpr int kGuess = -1, kAny = -2, kEdges = -3;

template <typename S, int kSteps>
void CountBlocks(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count,
                 const std::byte* samples, size_t blocks, Counters& counters) {
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
    counters.AddAll<kBlock>(slots);
  }
}

// The counter with the fewest steps for the plan. A plan that needs no step shares that of one
// step.
template <typename S>
auto BlockCounter(const internal::Bins<typename S::Compare>& bins) {
  if (bins.guess.usable()) return CountBlocks<S, kGuess>;
  if (bins.direct()) return CountBlocks<S, kEdges>;
  switch (std::bit_width(bins.cells.span_max)) {
    case 0:
    case 1:
      return CountBlocks<S, 1>;
    case 2:
      return CountBlocks<S, 2>;
    case 3:
      return CountBlocks<S, 3>;
    default:
      return CountBlocks<S, kAny>;
  }
}

template <typename S>
void Count(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count, SampleRuns runs,
           uint64_t* row) {
  constexpr size_t kSize = sizeof(typename S::Bits);
  const uint32_t slots = internal::SlotCount(bin_count);
  std::optional<Counters> counters;
  if (TablesPay(SamplesOf(runs), slots) && bins.reached > 0) counters.emplace(slots);
  for (auto [samples, count] : runs) {
    if (counters.has_value()) {
      const size_t blocks = count / kBlock;
      BlockCounter<S>(bins)(bins, bin_count, samples, blocks, *counters);
      samples += blocks * kBlock * kSize;
      count -= blocks * kBlock;
    }
    for (size_t i = 0; i < count; ++i) {
      const auto bits = internal::LoadBits<typename S::Bits>(samples + i * kSize);
      ++row[internal::SlotOf(bins, bin_count, S::Widen(bits))];
    }
  }
  if (counters.has_value()) counters->AddTo(row);
}

}  // namespace

void CountTypedScalar(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  internal::VisitSample(plan.type, [&]<typename S>(S) {
    const auto& bins = std::get<internal::Bins<typename S::Compare>>(plan.bins);
    Count<S>(bins, plan.binning.bin_count(), runs, row);
  });
}

}  // namespace histogram::cpu
