// A tally counts as its plan does, however its samples come.
#include <gtest/gtest.h>
#include <histogram/histogram.h>
#include <histogram/tally.h>
#include <histogram/typed.h>

#include <cstring>
#include <span>
#include <vector>

#include "kernels/reference.h"

namespace histogram {
namespace {

std::vector<Plan> Plans() {
  std::vector<Plan> plans = {Plan(), Plan::OfBytes(*Binning::Alphabet('a', 26, 6)),
                             Plan::OfBytes(*Binning::Even(7, -3.0, 99.5))};
  for (size_t t = 0; t < kSampleTypes; ++t) {
    const Binning binning = *Binning::Even(50, -40.0, 100.0);
    plans.push_back(*Plan::Make(binning, static_cast<SampleType>(t)));
    plans.push_back(*Plan::Direct(binning, static_cast<SampleType>(t)));
  }
  return plans;
}

// Any bits: NaN and infinities, too.
std::vector<std::byte> Samples(size_t bytes) {
  std::vector<std::byte> samples(bytes);
  uint64_t state = 1;
  for (std::byte& byte : samples) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return samples;
}

std::vector<uint64_t> Expected(const Plan& plan, std::span<const std::byte> samples) {
  const Fragment fragment(reinterpret_cast<const uint8_t*>(samples.data()), samples.size());
  return ReferenceCounters({&fragment, 1}, plan);
}

TEST(TallyTest, PartsThreadsAndStrangersCountersAddUp) {
  const std::vector<std::byte> all = Samples(size_t{5} << 18);
  const std::span<const std::byte> samples(all);
  const auto first = samples.first(1 << 20), second = samples.subspan(1 << 20, 8192);
  const auto third = samples.subspan((1 << 20) + 8192);
  for (const Plan& plan : Plans()) {
    Tally tally(plan), other(plan);
    tally.Add(first, 4);
    other.Add(second);
    tally.Merge(other);
    tally.Absorb(Expected(plan, third), third.size() / SampleBytes(plan.type()));
    const std::vector<uint64_t> expected = Expected(plan, samples);
    ASSERT_EQ(std::vector(tally.counters().begin(), tally.counters().end()), expected)
        << NameOf(plan.type()) << " " << plan.family();
    const Histogram h = tally.Finish();
    EXPECT_EQ(h.samples, samples.size() / SampleBytes(plan.type()));
    uint64_t sum = h.below + h.above + h.ignored + h.nan;
    for (const uint64_t count : h.counts) sum += count;
    EXPECT_EQ(sum, h.samples);
    EXPECT_EQ(h.counts.size(), plan.bin_count());
    tally.Clear();
    EXPECT_EQ(tally.samples(), 0U);
    tally.Add(second);
    EXPECT_EQ(tally.Finish(), other.Finish());
  }
}

TEST(TallyTest, BytesAreCountedAsByTheirBinning) {
  const std::vector<std::byte> samples = Samples(10'000);
  for (const Binning& binning :
       {*Binning::Alphabet('a', 26, 6), *Binning::Edges({3.0, 9.0, 200.0}), Binning::Identity()}) {
    Tally tally(Plan::OfBytes(binning), /*statistics=*/true);
    tally.Add(samples);
    EXPECT_EQ(tally.Finish(), Count(samples, binning));
    const std::vector<double> quantiles = {0.1, 0.5};
    EXPECT_EQ(tally.FinishStatistics(quantiles),
              ComputeStatistics(CountValues(samples), binning, quantiles));
  }
}

TEST(TallyTest, StatisticsOfPartsAreThoseOfTheWhole) {
  const std::vector<std::byte> all = Samples(size_t{1} << 16);
  const std::span<const std::byte> samples(all);
  for (const Plan& plan : Plans()) {
    if (plan.counts_values()) continue;
    Tally tally(plan, /*statistics=*/true), more(plan, /*statistics=*/true);
    tally.Add(samples.first(4096));
    more.Add(samples.subspan(4096, 8192));
    tally.Merge(more);
    const auto rest = samples.subspan(4096 + 8192);
    tally.Absorb(Expected(plan, rest), rest.size() / SampleBytes(plan.type()));
    tally.See(rest);
    const Statistics s = tally.FinishStatistics();
    const Statistics whole = ComputeStatistics(samples, plan, tally.Finish());
    EXPECT_EQ(s.minimum, whole.minimum);
    EXPECT_EQ(s.maximum, whole.maximum);
    EXPECT_EQ(s.entropy_bits, whole.entropy_bits);
    EXPECT_EQ(s.otsu_threshold, whole.otsu_threshold);
    EXPECT_EQ(s.mode, whole.mode);
    EXPECT_EQ(s.median.has_value(), SampleBytes(plan.type()) <= 2);
    ASSERT_EQ(s.mean.has_value(), whole.mean.has_value());
    EXPECT_NEAR(s.mean.value_or(0), whole.mean.value_or(0), 1e-9);
  }
}

}  // namespace
}  // namespace histogram
