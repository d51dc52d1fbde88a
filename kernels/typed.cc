#include <histogram/histogram.h>
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

void AddValues(std::span<const std::byte> samples, ValueCounts& values) {
  const Fragment fragment = FragmentOf(samples);
  AddPayload(Plan(), {&fragment, 1}, values);
}

void AddValues(const ValueCounts& more, ValueCounts& values) {
  for (uint32_t v = 0; v < kByteValues; ++v) values[v] += more[v];
}

ValueCounts CountValues(std::span<const std::byte> samples) {
  ValueCounts values{};
  AddValues(samples, values);
  return values;
}

std::string_view KernelName(size_t samples) { return KernelName(Plan(), samples); }

Histogram Count(std::span<const std::byte> samples, const Binning& binning) {
  return Fold(CountValues(samples), binning);
}

Histogram EmptyHistogram(const Plan& plan) {
  Histogram histogram;
  histogram.counts.reserve(internal::SlotCount(plan.bin_count()));  // see AddSamples
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
  // For as long as it is counted, the counts are a row of slots.
  const uint32_t bins = plan.bin_count();
  into.counts.resize(internal::SlotCount(bins));
  AddPayload(plan, samples, threads, into.counts);
  into.samples += samples.size() / SampleBytes(plan.type());
  into.below += into.counts[bins + internal::kBelowSlot];
  into.above += into.counts[bins + internal::kAboveSlot];
  into.nan += into.counts[bins + internal::kNanSlot];
  into.counts.resize(bins);
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
      cpu::CallFast([samples, &negative_zero]() HISTOGRAM_INLINE {
        Bits found = 0;
        for (size_t at = 0; at < samples.size(); at += sizeof(Bits)) {
          found |= Bits{internal::LoadBits<Bits>(samples.data() + at) == K::kSign};
        }
        negative_zero = found != 0;
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
