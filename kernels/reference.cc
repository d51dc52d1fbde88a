#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/plan_data.h"
#include "kernels/sample.h"

namespace histogram {

std::vector<uint64_t> ReferenceCounters(absl::Span<const Fragment> fragments, const Plan& plan) {
  if (!plan.counts_values()) return ReferenceSlots(fragments, plan.binning(), plan.type());
  std::vector<uint64_t> counters(kByteValues);
  for (const Fragment& fragment : fragments) {
    for (const uint8_t value : fragment) ++counters[value];
  }
  return counters;
}

std::vector<uint64_t> ReferenceSlots(absl::Span<const Fragment> fragments, const Binning& binning,
                                     SampleType type) {
  // A long double holds each value of each type exactly: its mantissa has 64 bits or more.
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const std::vector<double> edges = binning.ComputeEdges();
  const size_t bins = edges.size() - 1;
  std::vector<uint64_t> slots(internal::SlotCount(static_cast<uint32_t>(bins)));
  const auto slot_of = [&](long double x) {
    if (std::isnan(x)) return bins + internal::kNanSlot;
    if (x < edges.front()) return bins + internal::kBelowSlot;
    if (x > edges.back()) return bins + internal::kAboveSlot;
    const auto above = std::upper_bound(edges.begin(), edges.end(), x);
    return std::min(static_cast<size_t>(above - edges.begin()), bins) - 1;
  };
  internal::VisitSample(type, [&]<typename S>(S) {
    std::byte sample[sizeof(typename S::Bits)];
    size_t filled = 0;
    for (const Fragment& fragment : fragments) {
      for (const uint8_t byte : fragment) {
        sample[filled++] = std::byte{byte};
        if (filled < sizeof(sample)) continue;
        filled = 0;
        const auto bits = internal::LoadBits<typename S::Bits>(sample);
        ++slots[slot_of(static_cast<long double>(S::Widen(bits)))];
      }
    }
  });
  return slots;
}

}  // namespace histogram
