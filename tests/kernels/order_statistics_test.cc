// The samples at given ranks, against sorting.
#include "kernels/order_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace histogram::testing {
namespace {

// Ways in which samples lie in few or many buckets: random bits, half of them equal, few values,
// few values far apart, all within a millionth of each other, all equal, and small values among few
// huge ones.
enum class Drawn { kAnything, kHalfEqual, kFewValues, kFarApart, kNarrow, kConstant, kOutliers };
constexpr Drawn kAllDrawn[] = {Drawn::kAnything, Drawn::kHalfEqual, Drawn::kFewValues,
                               Drawn::kFarApart, Drawn::kNarrow,    Drawn::kConstant,
                               Drawn::kOutliers};

template <typename T>
T DrawSample(Drawn drawn_as, std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const uint64_t drawn = random();
  switch (drawn_as) {
    case Drawn::kAnything:
      return std::bit_cast<T>(static_cast<Bits>(drawn));
    case Drawn::kHalfEqual:
      return drawn % 2 == 0 ? T{0} : static_cast<T>(drawn % 1000003);
    case Drawn::kFewValues:
      return static_cast<T>(drawn % 7);
    case Drawn::kFarApart:
      return static_cast<T>(uint64_t{1} << drawn % 16 * 2);
    case Drawn::kConstant:
      return T{3};
    case Drawn::kOutliers:
      if (drawn % 5003 == 1) return std::numeric_limits<T>::lowest();
      return drawn % 503 == 0 ? std::numeric_limits<T>::max() : static_cast<T>(drawn % 100000);
    case Drawn::kNarrow:
      break;
  }
  return static_cast<T>(T{1000} + static_cast<T>(drawn % 1000) / static_cast<T>(1000000));
}

// NaN above all; -0.0 equal to 0.0.
template <typename T>
bool KeyLess(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  }
  return a < b;
}

template <typename T>
std::vector<T> Sorted(std::vector<T> samples) {
  std::sort(samples.begin(), samples.end(), KeyLess<T>);
  return samples;
}

template <typename T>
void ExpectKeysAt(const std::vector<uint64_t>& ranks, SampleType type,
                  const std::vector<T>& samples, const std::vector<T>& sorted, uint32_t threads) {
  const std::vector<uint64_t> keys =
      internal::KeysAtRanks(std::as_bytes(std::span(samples)), type, ranks, threads);
  ASSERT_EQ(keys.size(), ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint64_t bits = internal::BitsOfKey(keys[i], type);
    T have;
    std::memcpy(&have, &bits, sizeof(have));
    const T want = sorted[ranks[i]];
    ASSERT_FALSE(KeyLess(have, want) || KeyLess(want, have)) << "rank " << ranks[i] << ": " << have;
  }
}

template <typename T>
void ExpectKeys(SampleType type, const std::vector<T>& samples, const std::vector<T>& sorted,
                size_t rank_count, uint32_t threads) {
  std::vector<uint64_t> ranks;
  for (size_t i = 0; i < rank_count; ++i) {
    const size_t rank = (samples.size() - 1) * i / std::max<size_t>(1, rank_count - 1);
    ranks.insert(ranks.end(), 1 + i % 3, rank);  // some several times
  }
  ranks.push_back(samples.size() - 1);
  ExpectKeysAt(ranks, type, samples, sorted, threads);
}

template <typename T>
void ExpectAllKeys(SampleType type) {
  std::mt19937_64 random(20261125);
  for (const Drawn drawn_as : kAllDrawn) {
    for (const size_t size : {size_t{1}, size_t{4096}, size_t{4097}, size_t{600000}}) {
      std::vector<T> samples(size);
      for (T& sample : samples) sample = DrawSample<T>(drawn_as, random);
      if constexpr (std::is_floating_point_v<T>) samples[size / 2] = -T{0};
      const std::vector<T> sorted = Sorted(samples);
      for (const size_t rank_count : {size_t{1}, size_t{4}, size_t{101}}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(drawn_as)) + ", " + std::to_string(size) +
                     " samples, " + std::to_string(rank_count) + " ranks");
        ExpectKeys(type, samples, sorted, rank_count, /*threads=*/rank_count == 4 ? 2 : 1);
      }
    }
  }
}

TEST(OrderStatisticsTest, F32) { ExpectAllKeys<float>(SampleType::kF32); }
TEST(OrderStatisticsTest, F64) { ExpectAllKeys<double>(SampleType::kF64); }
TEST(OrderStatisticsTest, U32) { ExpectAllKeys<uint32_t>(SampleType::kU32); }
TEST(OrderStatisticsTest, I32) { ExpectAllKeys<int32_t>(SampleType::kI32); }
TEST(OrderStatisticsTest, U64) { ExpectAllKeys<uint64_t>(SampleType::kU64); }
TEST(OrderStatisticsTest, I64) { ExpectAllKeys<int64_t>(SampleType::kI64); }

// Every other sample, and those at equal distances, may be all alike. Of 600000 samples the search
// looks at each 97th.
TEST(OrderStatisticsTest, PeriodicSamples) {
  for (const size_t period : {size_t{2}, size_t{97}, size_t{512}, size_t{1171}, size_t{1172}}) {
    SCOPED_TRACE(period);
    std::vector<double> samples(600000);
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i] = i % period == 0 ? 1e300 : static_cast<double>(i % 1000);
    }
    const std::vector<double> sorted = Sorted(samples);
    ExpectKeys(SampleType::kF64, samples, sorted, 5, 1);
    ExpectKeysAt({samples.size() / 2}, SampleType::kF64, samples, sorted, 1);
  }
}

// The samples that the search looks at say that few lie around the median. Almost all do.
TEST(OrderStatisticsTest, MoreSamplesThanExpected) {
  std::vector<float> samples(600000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = i % 97 == 0 ? static_cast<float>(i) : 300000 + static_cast<float>(i % 1000) / 32;
  }
  const std::vector<float> sorted = Sorted(samples);
  for (const uint32_t threads : {1U, 2U}) ExpectKeys(SampleType::kF32, samples, sorted, 5, threads);
}

}  // namespace
}  // namespace histogram::testing
