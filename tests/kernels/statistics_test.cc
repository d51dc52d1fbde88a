#include <histogram/statistics.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram {
namespace {

using ::histogram::testing::kDistributions;
using ::histogram::testing::MakePayload;
using ::histogram::testing::Random;

Statistics Of(const std::vector<uint8_t>& payload, const std::vector<double>& quantiles = {},
              const Binning& binning = Binning::Identity()) {
  return ComputeStatistics(ReferenceCounts(payload), binning, quantiles);
}

TEST(StatisticsTest, NoSamplesHaveNone) {
  EXPECT_EQ(Of({}, {0.5}), Statistics());
  EXPECT_EQ(Of({1, 2, 3}, {0.5}, *Binning::Alphabet('a', 26, 1)), Statistics());
}

TEST(StatisticsTest, OneSample) {
  const Statistics statistics = Of({42}, {0, 0.3, 1});
  EXPECT_EQ(statistics.minimum, 42);
  EXPECT_EQ(statistics.maximum, 42);
  EXPECT_EQ(statistics.mean, 42);
  EXPECT_EQ(statistics.standard_deviation, 0);
  EXPECT_EQ(statistics.median, 42);
  EXPECT_EQ(statistics.mode, 42);
  EXPECT_EQ(statistics.entropy_bits, 0);
  EXPECT_FALSE(std::signbit(*statistics.entropy_bits));
  EXPECT_EQ(statistics.otsu_threshold, std::nullopt);
  EXPECT_EQ(statistics.quantiles, std::vector<double>({42, 42, 42}));
}

TEST(StatisticsTest, OnlyBinnedSamplesCount) {
  const std::vector<uint8_t> payload = {0, 5, 10, 10, 20, 255};
  const Statistics statistics = Of(payload, {0, 1}, *Binning::Even(4, 5, 20));
  EXPECT_EQ(statistics.minimum, 5);
  EXPECT_EQ(statistics.maximum, 20);
  EXPECT_EQ(statistics.mean, 45 / 4.0);
  EXPECT_EQ(statistics.quantiles, std::vector<double>({5, 20}));
}

// Entropy is of the bins, all else of the values.
TEST(StatisticsTest, EntropyIsOfTheBins) {
  std::vector<uint8_t> payload;
  for (int v = 0; v < 256; ++v) payload.push_back(static_cast<uint8_t>(v));
  EXPECT_EQ(*Of(payload).entropy_bits, 8);
  EXPECT_EQ(*Of(payload, {}, *Binning::Even(16, {}, {})).entropy_bits, 4);
  EXPECT_EQ(*Of(payload, {}, *Binning::Even(1, {}, {})).entropy_bits, 0);
  // Bins that are not in the order of their values.
  std::vector<uint32_t> table(256);
  for (uint32_t v = 0; v < 256; ++v) table[v] = v % 4;
  EXPECT_EQ(*Of(payload, {}, *Binning::ByteTable(4, table)).entropy_bits, 2);
}

// Otsu with exact integers, for samples so few that 128 bits hold every product.
std::optional<double> OtsuByDefinition(const ValueCounts& counts) {
  __extension__ using int128 = __int128;
  int64_t total = 0, sum = 0;
  for (int v = 0; v < 256; ++v) {
    total += static_cast<int64_t>(counts[v]);
    sum += static_cast<int64_t>(counts[v]) * v;
  }
  std::optional<double> best;
  int128 best_numerator = 0, best_denominator = 1;
  int64_t below = 0, below_sum = 0;
  for (int t = 0; t < 256; ++t) {
    below += static_cast<int64_t>(counts[t]);
    below_sum += static_cast<int64_t>(counts[t]) * t;
    if (below == 0 || below == total) continue;
    const int128 distance = int128{below_sum} * total - int128{sum} * below;
    const int128 numerator = distance * distance;
    const int128 denominator = int128{below} * (total - below);
    if (!best.has_value() || numerator * best_denominator > best_numerator * denominator) {
      best = t;
      best_numerator = numerator;
      best_denominator = denominator;
    }
  }
  return best;
}

TEST(OtsuTest, AgreesWithTheDefinition) {
  Random random(22);
  for (int round = 0; round < 3000; ++round) {
    ValueCounts counts{};
    const uint64_t distinct = 1 + random.Below(round % 2 == 0 ? 6 : 256);
    for (uint64_t i = 0; i < distinct; ++i) {
      counts[random.Below(256)] = 1 + random.Below(round % 3 == 0 ? 3 : 200);
    }
    ASSERT_EQ(ComputeStatistics(counts, Binning::Identity(), {}).otsu_threshold,
              OtsuByDefinition(counts));
  }
}

TEST(OtsuTest, SmallestOfEquallyGood) {
  // Symmetric about 100: the splits after 90 and after 100 are equally good, and stay so however
  // many samples there are.
  for (const uint64_t scale :
       {uint64_t{1}, uint64_t{1000003}, uint64_t{1} << 40, uint64_t{1} << 60}) {
    ValueCounts counts{};
    counts[90] = counts[100] = counts[110] = scale;
    EXPECT_EQ(ComputeStatistics(counts, Binning::Identity(), {}).otsu_threshold, 90) << scale;
  }
}

// One sample more on one side decides, though no floating-point number shows the difference.
TEST(OtsuTest, OneSampleDecides) {
  for (const uint64_t scale : {uint64_t{1} << 20, uint64_t{1} << 40, uint64_t{1} << 60}) {
    ValueCounts counts{};
    counts[90] = counts[100] = counts[110] = scale;
    counts[90] += 1;
    EXPECT_EQ(ComputeStatistics(counts, Binning::Identity(), {}).otsu_threshold, 90) << scale;
    counts[90] -= 1;
    counts[110] += 1;
    EXPECT_EQ(ComputeStatistics(counts, Binning::Identity(), {}).otsu_threshold, 100) << scale;
  }
}

// Counts far beyond what any payload has must neither overflow nor trap.
TEST(StatisticsTest, HugeCounts) {
  ValueCounts counts{};
  counts[0] = uint64_t{1} << 62;
  counts[255] = uint64_t{1} << 62;
  const Statistics statistics = ComputeStatistics(counts, Binning::Identity(), {{0, 0.5, 1}});
  EXPECT_EQ(statistics.mean, 127.5);
  EXPECT_EQ(statistics.standard_deviation, 127.5);
  EXPECT_EQ(statistics.median, 127.5);
  EXPECT_EQ(statistics.entropy_bits, 1);
  EXPECT_EQ(statistics.otsu_threshold, 0);
  EXPECT_EQ(statistics.quantiles.front(), 0);
  EXPECT_EQ(statistics.quantiles.back(), 255);
}

// A tiny spread under a large mean and many samples: squares minus mean squared would cancel.
TEST(StatisticsTest, StandardDeviationDoesNotCancel) {
  ValueCounts counts{};
  counts[254] = uint64_t{1} << 50;
  counts[255] = 1;
  const double share = std::ldexp(1, -50);
  EXPECT_NEAR(
      *ComputeStatistics(counts, Binning::Identity(), {}).standard_deviation / std::sqrt(share), 1,
      1e-12);
}

}  // namespace
}  // namespace histogram
