// Sample by sample, for every type and plan and on every processor.
#include <optional>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

namespace histogram::cpu {
namespace {

constexpr size_t kBlock = 64;

// kGuess: by the guess; else by the search.
template <typename S, bool kGuess>
void CountBlocks(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count,
                 const std::byte* samples, size_t blocks, Counters& counters) {
  using C = typename S::Compare;
  constexpr size_t kSize = sizeof(typename S::Bits);
  for (size_t b = 0; b < blocks; ++b, samples += kBlock * kSize) {
    uint32_t slots[kBlock];
    for (size_t i = 0; i < kBlock; ++i) {
      const C x = S::Widen(internal::LoadBits<typename S::Bits>(samples + i * kSize));
      if (x >= bins.lower && x <= bins.upper) {
        slots[i] = kGuess ? internal::GuessBin(bins, x) : internal::SearchBin(bins, x);
      } else {
        slots[i] = internal::OutsideSlot(bins, bin_count, x);
      }
    }
    counters.AddAll<kBlock>(slots);
  }
}

template <typename S>
void Count(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count, SampleRuns runs,
           uint64_t* row) {
  constexpr size_t kSize = sizeof(typename S::Bits);
  const uint32_t slots = internal::SlotCount(bin_count);
  std::optional<Counters> counters;
  if (TablesPay(SamplesOf(runs), slots) && !bins.thresholds.empty()) counters.emplace(slots);
  for (auto [samples, count] : runs) {
    if (counters.has_value()) {
      const size_t blocks = count / kBlock;
      if (bins.guess.usable()) {
        CountBlocks<S, true>(bins, bin_count, samples, blocks, *counters);
      } else {
        CountBlocks<S, false>(bins, bin_count, samples, blocks, *counters);
      }
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
