// Statistics of typed samples against plain ones in long double.
#include <gtest/gtest.h>
#include <histogram/histogram.h>
#include <histogram/sample_statistics.h>
#include <histogram/statistics.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "kernels/sample.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {
namespace {

class SampleStatisticsTest : public ::testing::TestWithParam<SampleType> {
 protected:
  SampleType type() const { return GetParam(); }
  bool narrow() const { return SampleBytes(type()) <= 2; }

  // In bins, ascending; -0.0 as 0.0.
  std::vector<long double> Binned(std::span<const std::byte> bytes,
                                  const std::vector<double>& edges) const {
    std::vector<long double> binned;
    internal::VisitSample(type(), [&]<typename S>(S) {
      using Bits = typename S::Bits;
      for (size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
        const auto x =
            static_cast<long double>(S::Widen(internal::LoadBits<Bits>(bytes.data() + i)));
        if (x >= edges.front() && x <= edges.back()) binned.push_back(x + 0.0L);
      }
    });
    std::sort(binned.begin(), binned.end());
    return binned;
  }

  void ExpectRight(const Binning& binning, const std::vector<std::byte>& bytes) const {
    const Plan plan = *Plan::Make(binning, type());
    const std::vector<double> edges = binning.ComputeEdges();
    const Histogram histogram = Count(bytes, plan);
    const std::vector<double> quantiles = {0, 0.1, 0.25, 0.5, 0.9, 1};
    const Statistics s = ComputeStatistics(bytes, plan, histogram, quantiles);
    const std::vector<long double> binned = Binned(bytes, edges);
    if (binned.empty()) {
      EXPECT_EQ(s, Statistics{});
      return;
    }
    const auto n = static_cast<long double>(binned.size());
    const long double tolerance = 1e-12L * (edges.back() - edges.front());
    EXPECT_EQ(*s.minimum, static_cast<double>(binned.front()));
    EXPECT_EQ(*s.maximum, static_cast<double>(binned.back()));
    long double sum = 0, squares = 0;
    for (const long double x : binned) sum += x - edges.front();
    const long double mean = sum / n + edges.front();
    for (const long double x : binned) squares += (x - mean) * (x - mean);
    EXPECT_NEAR(*s.mean, static_cast<double>(mean), static_cast<double>(tolerance) + 1e-300);
    EXPECT_NEAR(*s.standard_deviation, static_cast<double>(std::sqrt(squares / n)),
                static_cast<double>(tolerance) + 1e-300);
    const auto at = [&](size_t rank) { return static_cast<double>(binned[rank]); };
    const size_t last = binned.size() - 1;
    EXPECT_EQ(*s.median, (at(last / 2) + at(binned.size() / 2)) / 2);
    ASSERT_EQ(s.quantiles.size(), quantiles.size());
    for (size_t i = 0; i < quantiles.size(); ++i) {
      const double index = static_cast<double>(last) * quantiles[i];
      const auto rank = std::min(static_cast<size_t>(index), last);
      const double a = at(rank), b = at(std::min(rank + 1, last)), t = index - std::floor(index);
      EXPECT_EQ(s.quantiles[i], t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t)) << quantiles[i];
    }
    EXPECT_EQ(s.mode.has_value(), narrow());
    if (narrow()) {
      std::map<long double, uint64_t> counts;
      for (const long double x : binned) ++counts[x];
      uint64_t most = 0;
      for (const auto& [value, count] : counts) most = std::max(most, count);
      EXPECT_EQ(counts[*s.mode], most);
      EXPECT_EQ(s.otsu_threshold.has_value(), counts.size() > 1);
    } else if (s.otsu_threshold.has_value()) {
      EXPECT_TRUE(std::binary_search(edges.begin(), edges.end(), *s.otsu_threshold));
    }
    if (type() == SampleType::kU8) {  // the same, of the count of each value
      const Statistics of_values = ComputeStatistics(CountValues(bytes), binning, quantiles);
      EXPECT_EQ(of_values.minimum, s.minimum);
      EXPECT_EQ(of_values.maximum, s.maximum);
      EXPECT_EQ(of_values.median, s.median);
      EXPECT_EQ(of_values.mode, s.mode);
      EXPECT_EQ(of_values.otsu_threshold, s.otsu_threshold);
      EXPECT_EQ(of_values.quantiles, s.quantiles);
      EXPECT_DOUBLE_EQ(*of_values.mean, *s.mean);
      EXPECT_NEAR(*of_values.standard_deviation, *s.standard_deviation, 1e-12);
      EXPECT_DOUBLE_EQ(*of_values.entropy_bits, *s.entropy_bits);
    }
  }
};

TEST_P(SampleStatisticsTest, EqualPlainOnes) {
  std::mt19937_64 random(3);
  for (const auto& [lower, upper] : {std::pair(0.0, 100.0), {-50.0, 77.5}, {-1e-3, 1e-3}}) {
    const Binning binning = *Binning::Even(20, lower, upper);
    for (const size_t count : {0, 1, 2, 3, 1000, 5000}) {
      std::vector<std::byte> bytes;
      AppendOnEdges(type(), binning.ComputeEdges(), static_cast<size_t>(count) / 2, random, bytes);
      AppendWithin(type(), binning.ComputeEdges(), static_cast<size_t>(count), random, bytes);
      ExpectRight(binning, bytes);
    }
  }
}

TEST_P(SampleStatisticsTest, OfRandomBits) {
  std::mt19937_64 random(4);
  const Binning binning = *Binning::Edges({-1e9, -100, -1, 0, 1, 2, 1e4, 1e9});
  std::vector<std::byte> bytes;
  AppendRandomBits(type(), 4000, random, bytes);
  ExpectRight(binning, bytes);
}

INSTANTIATE_TEST_SUITE_P(Types, SampleStatisticsTest, ::testing::ValuesIn(kAllTypes), TypeName);

TEST(SampleStatisticsOfDoublesTest, NeitherOverflowNorVanish) {
  for (const double unit : {1e-200, 1.0, 1e307}) {
    std::vector<double> samples(3000, -8 * unit);
    for (size_t i = 0; i < samples.size(); i += 2) samples[i] = 2 * unit;
    const Plan plan = *Plan::Make(*Binning::Even(7, -10 * unit, 4 * unit), SampleType::kF64);
    const auto bytes = std::as_bytes(std::span(samples));
    const Statistics s = ComputeStatistics(bytes, plan, Count(bytes, plan));
    EXPECT_NEAR(*s.mean / unit, -3, 1e-11) << unit;
    EXPECT_NEAR(*s.standard_deviation / unit, 5, 1e-11) << unit;
  }
  const Plan plan = *Plan::Make(*Binning::Even(4, -1000, 1.6e308), SampleType::kF64);
  for (const double one : {1.5e308, 0.1}) {
    const auto bytes = std::as_bytes(std::span(&one, 1));
    const Statistics s = ComputeStatistics(bytes, plan, Count(bytes, plan));
    EXPECT_EQ(s.mean, one);
    EXPECT_EQ(s.median, one);
  }
}

TEST(SampleStatisticsOfFloatsTest, OtsuPartsTwoHeaps) {
  std::vector<float> samples;
  for (int i = 0; i < 100; ++i) {
    samples.push_back(1 + static_cast<float>(i % 10) / 10);
    samples.push_back(8 + static_cast<float>(i % 10) / 10);
  }
  const Plan plan = *Plan::Make(*Binning::Even(10, 0.0, 10.0), SampleType::kF32);
  const auto bytes = std::as_bytes(std::span(samples));
  const Statistics s = ComputeStatistics(bytes, plan, Count(bytes, plan));
  EXPECT_EQ(s.otsu_threshold, 2.0);
  EXPECT_DOUBLE_EQ(*s.entropy_bits, 1.0);
}

}  // namespace
}  // namespace histogram::testing
