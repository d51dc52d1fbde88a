#include "kernels/cpu/typed.h"

#include <histogram/histogram.h>
#include <histogram/tally.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/float_mode.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/rounded.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

// The counters of a histogram as a row of slots (see internal::SlotCount), for as long as it lives.
// Then the samples in no bin are added to the histogram's.
class HistogramRow {
 public:
  explicit HistogramRow(Histogram& histogram)
      : histogram_(histogram), bins_(static_cast<uint32_t>(histogram.counts.size())) {
    histogram_.counts.resize(internal::SlotCount(bins_));
  }
  HistogramRow(const HistogramRow&) = delete;
  HistogramRow& operator=(const HistogramRow&) = delete;
  ~HistogramRow() {
    histogram_.below += slots()[bins_ + internal::kBelowSlot];
    histogram_.above += slots()[bins_ + internal::kAboveSlot];
    histogram_.nan += slots()[bins_ + internal::kNanSlot];
    histogram_.counts.resize(bins_);
  }
  std::span<uint64_t> slots() { return histogram_.counts; }

 private:
  Histogram& histogram_;
  const uint32_t bins_;
};

}  // namespace

Histogram EmptyHistogram(const Plan& plan) {
  Histogram histogram;
  histogram.counts.reserve(internal::SlotCount(plan.bin_count()));  // see HistogramRow
  histogram.counts.assign(plan.bin_count(), 0);
  return histogram;
}

void AddSamples(std::span<const std::byte> samples, const Plan& plan, Histogram& into) {
  AddSamples(samples, plan, 1, into);
}

void AddSamples(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                Histogram& into) {
  assert(samples.size() % SampleBytes(plan.type()) == 0);
  assert(into.counts.size() == plan.bin_count());
  if (plan.counts_values()) {  // whose counters are not those of the bins
    Tally tally(plan);
    tally.Add(samples, threads);
    return Merge(tally.Finish(), into);
  }
  AddPayload(plan, samples, threads, HistogramRow(into).slots());
  into.samples += samples.size() / SampleBytes(plan.type());
}

void Merge(const Histogram& more, Histogram& into) {
  assert(more.counts.size() == into.counts.size());
  for (size_t i = 0; i < into.counts.size(); ++i) into.counts[i] += more.counts[i];
  into.samples += more.samples;
  into.below += more.below;
  into.above += more.above;
  into.ignored += more.ignored;
  into.nan += more.nan;
}

Histogram Count(std::span<const std::byte> samples, const Plan& plan) {
  Histogram histogram = EmptyHistogram(plan);
  AddSamples(samples, plan, histogram);
  return histogram;
}

std::string_view KernelName(const Plan& plan, size_t samples) {
  return plan.counts_values() ? KernelName(samples) : cpu::FastestTyped(plan.data()).name;
}

std::optional<Extent> FindExtent(std::span<const std::byte> samples, SampleType type) {
  assert(samples.size() % SampleBytes(type) == 0);
  const internal::FloatMode mode;
  return internal::VisitSample(type, [&]<typename S>(S) -> std::optional<Extent> {
    using C = typename S::Compare;
    constexpr size_t kSize = sizeof(typename S::Bits);
    using Limits = std::numeric_limits<C>;
    C least = Limits::max(), greatest = Limits::lowest();
    bool finite = true;
    for (size_t i = 0; i < samples.size(); i += kSize) {
      const C x = S::Widen(internal::LoadBits<typename S::Bits>(samples.data() + i));
      const bool is_number = x >= Limits::lowest() && x <= Limits::max();
      finite &= is_number;
      least = is_number && x < least ? x : least;
      greatest = is_number && x > greatest ? x : greatest;
    }
    if (least > greatest) return std::nullopt;
    bool negative_zero = false;
    if (std::is_floating_point_v<C> && greatest == 0) {
      for (size_t i = 0; i < samples.size() && !negative_zero; i += kSize) {
        const C x = S::Widen(internal::LoadBits<typename S::Bits>(samples.data() + i));
        negative_zero = x == 0 && std::signbit(x);
      }
    }
    // Which zero is the least or the greatest depends on the processor. -0.0 + 0.0 is 0.0.
    return Extent{.least = internal::Rounded(least, /*up=*/false) + 0.0,
                  .greatest = internal::Rounded(greatest, /*up=*/true) + 0.0,
                  .finite = finite,
                  .constant = least == greatest,
                  .negative_zero = negative_zero};
  });
}

}  // namespace histogram
