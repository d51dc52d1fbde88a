#include <histogram/tally.h>
#include <histogram/typed.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <type_traits>

#include "kernels/cpu/features.h"
#include "kernels/cpu/registry.h"
#include "kernels/float_mode.h"
#include "kernels/key_range.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/rounded.h"
#include "kernels/sample.h"

namespace histogram {
namespace internal {
namespace {

template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_INLINE inline bool HasNegativeZero(const std::byte* samples, size_t count) {
  Bits found = 0;
  for (size_t i = 0; i < count; ++i) {
    found |= Bits{LoadBits<Bits>(samples + i * sizeof(Bits)) == K::kSign};
  }
  return found != 0;
}

}  // namespace
}  // namespace internal

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
  return cpu::DefaultKernel(plan.data(), samples).name;
}

std::optional<Extent> FindExtent(std::span<const std::byte> samples, SampleType type) {
  assert(samples.size() % SampleBytes(type) == 0);
  const internal::FloatMode mode;
  return internal::VisitSample(type, [&]<typename S>(S) -> std::optional<Extent> {
    using K = decltype(internal::KeyedFor<S>());
    using Bits = typename K::Bits;
    const internal::KeyRange<Bits> keys = internal::FindKeys<K>(samples, K::kLeast, K::kSpan);
    if (keys.least > keys.greatest) return std::nullopt;
    const auto value = [](Bits key) {
      return S::Widen(std::bit_cast<typename S::Bits>(K::BitsOf(key)));
    };
    bool negative_zero = false;
    if (K::kIsFloat && value(keys.greatest) == 0) {
      cpu::CallFast([&]() HISTOGRAM_INLINE {
        negative_zero = internal::HasNegativeZero<K>(samples.data(), samples.size() / sizeof(Bits));
      });
    }
    return Extent{.least = internal::Rounded(value(keys.least), /*up=*/false),
                  .greatest = internal::Rounded(value(keys.greatest), /*up=*/true),
                  .finite = keys.all,
                  .constant = keys.least == keys.greatest,
                  .negative_zero = negative_zero};
  });
}

}  // namespace histogram
