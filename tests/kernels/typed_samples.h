// Typed samples for tests, and the plain answer: each sample compared with the edges themselves.
#ifndef HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_
#define HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_

#include <histogram/typed.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/reference.h"
#include "kernels/sample.h"

namespace histogram::testing {

inline constexpr SampleType kAllTypes[] = {SampleType::kU8,   SampleType::kI8,  SampleType::kU16,
                                           SampleType::kI16,  SampleType::kU32, SampleType::kI32,
                                           SampleType::kU64,  SampleType::kI64, SampleType::kF16,
                                           SampleType::kBf16, SampleType::kF32, SampleType::kF64};

// numpy.histogram(samples, edges) by comparison alone.
inline Histogram PlainHistogram(std::span<const std::byte> bytes, SampleType type,
                                const std::vector<double>& edges) {
  const Binning binning = *Binning::Edges(edges, std::numeric_limits<uint32_t>::max());
  const Fragment fragment = FragmentOf(bytes);
  const std::vector<uint64_t> slots = ReferenceSlots({&fragment, 1}, binning, type);
  const uint32_t bins = binning.bin_count();
  return {.counts = {slots.begin(), slots.begin() + bins},
          .samples = bytes.size() / SampleBytes(type),
          .below = slots[bins + internal::kBelowSlot],
          .above = slots[bins + internal::kAboveSlot],
          .nan = slots[bins + internal::kNanSlot]};
}

// Any pattern of bits, so each NaN, infinity and subnormal of the type may come.
inline void AppendRandomBits(SampleType type, size_t count, std::mt19937_64& random,
                             std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    const size_t at = bytes.size();
    bytes.resize(at + SampleBytes(type));
    std::memcpy(bytes.data() + at, &bits, SampleBytes(type));
  }
}

// The bits of the value of the type that is nearest to `value`, and `steps` further up.
template <typename S>
typename S::Bits Near(double value, int steps) {
  using Bits = typename S::Bits;
  if constexpr (std::is_same_v<Bits, float> || std::is_same_v<Bits, double>) {
    Bits x = static_cast<Bits>(value);
    for (int s = 0; s < std::abs(steps); ++s) {
      x = std::nextafter(x, steps < 0 ? -std::numeric_limits<Bits>::infinity()
                                      : std::numeric_limits<Bits>::infinity());
    }
    return x;
  } else if constexpr (std::is_same_v<typename S::Compare, float>) {
    // 16 bits: the pattern of the greatest value that is not above, by search.
    auto ordered = [](int order) {  // -32768 .. 32767 -> patterns by value, but for NaN
      return static_cast<uint16_t>(order >= 0 ? order : 0x8000 - order - 1);
    };
    int low = -0x7C00, high = 0x7C00;
    while (low < high) {
      const int middle = (low + high + 1) >> 1;
      if (static_cast<double>(S::Widen(ordered(middle))) <= value) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return ordered(std::clamp(low + steps, -0x7C00, 0x7C00));
  } else {
    const long double most = std::numeric_limits<Bits>::max();
    const long double least = std::numeric_limits<Bits>::lowest();
    return static_cast<Bits>(
        std::clamp(std::floor(static_cast<long double>(value)) + steps, least, most));
  }
}

// Samples on edges and up to two steps beside them.
inline void AppendOnEdges(SampleType type, const std::vector<double>& edges, size_t count,
                          std::mt19937_64& random, std::vector<std::byte>& bytes) {
  internal::VisitSample(type, [&]<typename S>(S) {
    for (size_t i = 0; i < count; ++i) {
      const auto bits = Near<S>(edges[random() % edges.size()], static_cast<int>(random() % 5) - 2);
      const size_t at = bytes.size();
      bytes.resize(at + sizeof(bits));
      std::memcpy(bytes.data() + at, &bits, sizeof(bits));
    }
  });
}

// Samples spread evenly over the range of the edges and a little beyond.
inline void AppendWithin(SampleType type, const std::vector<double>& edges, size_t count,
                         std::mt19937_64& random, std::vector<std::byte>& bytes) {
  const double middle = edges.front() / 2 + edges.back() / 2;
  const double half = (edges.back() / 2 - edges.front() / 2) * 1.05;
  std::uniform_real_distribution<double> share(-1, 1);
  internal::VisitSample(type, [&]<typename S>(S) {
    for (size_t i = 0; i < count; ++i) {
      const auto bits = Near<S>(middle + half * share(random), 0);
      const size_t at = bytes.size();
      bytes.resize(at + sizeof(bits));
      std::memcpy(bytes.data() + at, &bits, sizeof(bits));
    }
  });
}

// Increasing edges, up to 2^`count_log2`: spread evenly, or by powers of two on both sides of zero.
inline std::vector<double> RandomEdges(bool by_powers, double count_log2, std::mt19937_64& random) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const double scale = std::exp2(uniform(-40, 60));
  std::set<double> edges;
  const auto count = static_cast<size_t>(std::exp2(uniform(1.1, count_log2)));
  while (edges.size() < count) {
    const double share = uniform(-1, 1);
    edges.insert(by_powers ? std::copysign(std::exp2(40 * std::fabs(share) - 40), share) * scale
                           : share * scale);
  }
  return {edges.begin(), edges.end()};
}

// Ranges beyond the values of a type, or between two of them; for each type there is one.
inline constexpr std::pair<double, double> kOddRanges[] = {
    {1e300, 2e300}, {-2e300, -1e300}, {-1e300, 1e300},    {1e39, 2e39},       {-2e39, -1e39},
    {0.2, 0.4},     {-0.4, -0.2},     {3e38, 1e39},       {1.9e19, 2e19},     {-1e19, -9.3e18},
    {60000, 70000}, {9.2e18, 9.3e18}, {-9.3e18, -9.2e18}, {1.84e19, 1.85e19}, {1e-310, 1e-309}};

// Even bins over ordinary ranges.
inline std::vector<Binning> OrdinaryBinnings() {
  std::vector<Binning> binnings;
  for (const uint32_t bins : {1U, 2U, 3U, 10U, 64U, 100U, 256U, 1000U, 2048U, 4096U, 16384U}) {
    for (const auto& [lower, upper] : {std::pair(0.0, 1.0),
                                       {-1.0, 1.0},
                                       {0.1, 0.8},
                                       {-4.0, 4.0},
                                       {0.0, 256.0},
                                       {-128.0, 128.0},
                                       {0.0, 65536.0},
                                       {-32768.0, 32768.0},
                                       {-3.7, 12.1},
                                       {1000.0, 1010.0},
                                       {-1e6, 1e6},
                                       {0.0, 4294967296.0}}) {
      binnings.push_back(*Binning::Even(bins, lower, upper));
    }
  }
  return binnings;
}

// In turn: even bins over a random range, and bins between random edges.
inline std::vector<Binning> RandomBinnings(size_t count, std::mt19937_64& random) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<Binning> binnings;
  while (binnings.size() < count) {
    const double scale = std::exp2(uniform(-40, 60));
    const double lower = uniform(-1, 1) * scale, upper = lower + uniform(0, 1) * scale;
    const auto bins = static_cast<uint32_t>(std::exp2(uniform(0, 12)));
    const Result<Binning> even = Binning::Even(bins, lower, upper);
    if (even.ok()) binnings.push_back(*even);  // else edges round to the same double
    binnings.push_back(*Binning::Edges(RandomEdges(binnings.size() % 4 < 2, 12, random)));
  }
  return binnings;
}

// Ranges as wide and as narrow as doubles allow, those that a type does not reach, and edges closer
// together than the samples of the type, so that some bins can hold none.
inline std::vector<Binning> OddBinnings() {
  std::vector<Binning> binnings;
  const auto add = [&](double lower, double upper) {
    for (const uint32_t bins : {1U, 7U, 100U, 1000U}) {
      binnings.push_back(*Binning::Even(bins, lower, upper));
    }
  };
  for (const auto& [lower, upper] : kOddRanges) add(lower, upper);
  for (const auto& [lower, upper] : {std::pair(-8e307, 8e307),
                                     {0.0, 1e-320},
                                     {-1e-300, 1e-300},
                                     {0.0, 1e-40},
                                     {1.0, 1 + 0x1p-40},
                                     {1.7e18, 1.7e18 + 4096 * 256},
                                     {0x1p64 - 4096 * 2048, 0x1p64},
                                     {-0x1p63, 0x1p63}}) {
    add(lower, upper);
  }
  for (const double from : {0.0, 1.0, 100.0, -77.0, 1e9, -3e18, 9e18}) {
    const double step = std::max(1.0, std::fabs(from)) * 0x1p-50;
    std::vector<double> edges;
    for (int i = 0; i < 64; ++i) edges.push_back(from + i * step);
    edges.push_back(from + std::max(2.0, std::fabs(from) / 8));
    binnings.push_back(*Binning::Edges(edges));
  }
  binnings.push_back(*Binning::Edges({-1e-46, 1e-300, 1e-46}));  // f32: from -0.0 to 0.0
  // The greatest sample of a narrow type is alone in its bin.
  for (const double end : {127.0, 255.0, 32767.0, 65535.0}) {
    binnings.push_back(*Binning::Edges({0.9 * end, end, 2 * end}));
  }
  // Integers below the first edge wrap around to positions near the second one.
  for (const double end : {0x1p31, 0x1p32, 0x1p63, 0x1p64}) {
    binnings.push_back(*Binning::Edges({100, 0.8 * end, 2 * end}));
  }
  return binnings;
}

// Many bins between uneven edges.
inline Binning UnevenBinning(int bins) {
  std::vector<double> edges;
  for (int i = 0; i <= bins; ++i)
    edges.push_back(std::pow(i / static_cast<double>(bins), 3) * 40000);
  return *Binning::Edges(edges);
}

// Half of them on edges, others within them, and any bits.
inline std::vector<std::byte> MixedSamples(SampleType type, const std::vector<double>& edges,
                                           size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes;
  AppendOnEdges(type, edges, count / 2, random, bytes);
  AppendWithin(type, edges, count / 4, random, bytes);
  AppendRandomBits(type, count - count / 2 - count / 4, random, bytes);
  return bytes;
}

// More of each kind with HISTOGRAM_TYPED_ROUNDS=100000.
inline size_t Rounds(size_t rounds) {
  const char* const asked = std::getenv("HISTOGRAM_TYPED_ROUNDS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : rounds;
}

inline std::string TypeName(const ::testing::TestParamInfo<SampleType>& of) {
  return std::string(NameOf(of.param));
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_
