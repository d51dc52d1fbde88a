// Typed samples for tests, and the plain answer: each sample compared with the edges themselves.
#ifndef HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_
#define HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_

#include <histogram/typed.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

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

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_TYPED_SAMPLES_H_
