#include <histogram/sample_statistics.h>
#include <histogram/statistics.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/cpu/features.h"
#include "kernels/distance_sums.h"
#include "kernels/float_mode.h"
#include "kernels/key_range.h"
#include "kernels/order_statistics.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

__extension__ using uint128 = unsigned __int128;
using Values = std::span<const uint64_t, kByteValues>;

// A value, and the number of samples with it.
struct Weight {
  double value;
  uint64_t count;
};

double EntropyBits(std::span<const uint64_t> counts, uint64_t total) {
  double entropy = 0;
  for (const uint64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(total);
    if (count > 0 && count < total) entropy -= share * std::log2(share);
  }
  return entropy;
}

// An unsigned integer of 512 bits: enough for the products that Otsu's comparison multiplies out.
class Wide {
 public:
  explicit Wide(uint128 value) {
    for (size_t i = 0; i < 4; ++i) limbs_[i] = static_cast<uint32_t>(value >> (32 * i));
  }

  // Modulo 2^512; the callers' products stay below 2^400.
  friend Wide operator*(const Wide& a, const Wide& b) {
    Wide product(0);
    for (size_t i = 0; i < kLimbs; ++i) {
      if (a.limbs_[i] == 0) continue;
      uint64_t carry = 0;
      for (size_t j = 0; i + j < kLimbs; ++j) {
        carry += uint64_t{a.limbs_[i]} * b.limbs_[j] + product.limbs_[i + j];
        product.limbs_[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
    }
    return product;
  }

  friend bool operator<(const Wide& a, const Wide& b) {
    return std::lexicographical_compare(a.limbs_.rbegin(), a.limbs_.rend(), b.limbs_.rbegin(),
                                        b.limbs_.rend());
  }

 private:
  static constexpr size_t kLimbs = 16;
  std::array<uint32_t, kLimbs> limbs_{};  // least significant first
};

// Whether the split after weight `a` is better than that after `b`, exactly. With N samples of sum
// S, of which n of sum s are up to the split, the between-class variance is (S n - s N)² /
// (n (N - n)), divided by N². S n >= s N, and for N < 2^61 the difference, if not the products, has
// 128 bits. REQUIRES: the weights are of bytes.
bool IsBetterSplit(std::span<const Weight> weights, size_t a, size_t b) {
  const auto up_to = [weights](size_t last) {
    std::pair<uint64_t, uint128> part;  // its samples, and their sum
    for (const auto& [value, count] : weights.first(last + 1)) {
      part.first += count;
      part.second += uint128{count} * static_cast<uint32_t>(value);
    }
    return part;
  };
  const auto all = up_to(weights.size() - 1);
  const auto fraction = [&](size_t last) {
    const auto [count, sum] = up_to(last);
    const Wide difference(all.second * count - sum * all.first);
    return std::pair(difference * difference, Wide(count) * Wide(all.first - count));
  };
  const auto of_a = fraction(a), of_b = fraction(b);
  return of_b.first * of_a.second < of_a.first * of_b.second;
}

// The index of the last weight of the lower class in the split with the greatest variance between
// the classes; nullopt for fewer than two weights. Of bytes, close variances are compared exactly:
// so the smallest of equally good splits wins. Weights ascend; no count is 0.
std::optional<size_t> OtsuSplit(std::span<const Weight> weights, bool of_bytes) {
  long double sum = 0, total = 0;
  for (const auto& [value, count] : weights) {
    sum += static_cast<long double>(value) * static_cast<long double>(count);
    total += static_cast<long double>(count);
  }
  std::optional<size_t> best;
  long double greatest = -1, below = 0, sum_below = 0;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    below += static_cast<long double>(weights[i].count);
    sum_below +=
        static_cast<long double>(weights[i].value) * static_cast<long double>(weights[i].count);
    const long double distance = sum_below / below - (sum - sum_below) / (total - below);
    const long double variance = below * (total - below) * distance * distance;
    const bool close = of_bytes && std::fabs(variance - greatest) <= greatest * 1e-12L;
    if (close ? !IsBetterSplit(weights, i, *best) : variance <= greatest * (1 + 1e-15L)) continue;
    greatest = variance;
    best = i;
  }
  return best;
}

// Sets all but entropy. REQUIRES: weights ascend, no count is 0, and together they are `total`.
void SetFromWeights(std::span<const Weight> weights, uint64_t total, bool of_bytes,
                    std::span<const double> quantiles, Statistics& out) {
  const auto n = static_cast<long double>(total);
  long double sum = 0, squares = 0;
  for (const auto& [value, count] : weights) {
    sum += static_cast<long double>(value) * static_cast<long double>(count);
  }
  const long double mean = sum / n;
  // If a double holds the sum exactly, this quotient is correctly rounded, as numpy's is.
  const auto sum_in_double = static_cast<double>(sum);
  for (const auto& [value, count] : weights) {
    const long double distance = static_cast<long double>(value) - mean;
    squares += static_cast<long double>(count) * distance * distance;
  }
  out.minimum = weights.front().value;
  out.maximum = weights.back().value;
  out.mean = static_cast<long double>(sum_in_double) == sum
                 ? sum_in_double / static_cast<double>(total)
                 : static_cast<double>(mean);
  out.standard_deviation = static_cast<double>(std::sqrt(squares / n));
  out.mode = std::max_element(weights.begin(), weights.end(), [](const Weight& a, const Weight& b) {
               return a.count < b.count;
             })->value;
  std::vector<uint64_t> up_to;
  for (const Weight& weight : weights) {
    up_to.push_back((up_to.empty() ? 0 : up_to.back()) + weight.count);
  }
  const auto at = [&](uint64_t rank) {
    const auto found = std::upper_bound(up_to.begin(), up_to.end(), rank);
    return weights[static_cast<size_t>(found - up_to.begin())].value;
  };
  out.median = (at((total - 1) / 2) + at(total / 2)) / 2;
  for (const double q : quantiles) out.quantiles.push_back(internal::QuantileOf(total, q, at));
  const std::optional<size_t> split = OtsuSplit(weights, of_bytes);
  if (split.has_value()) out.otsu_threshold = weights[*split].value;
}

// --- Types of 8 and 16 bits

// The values in bins that occur, with their counts, in ascending order.
std::vector<Weight> WeightsOf(const internal::PlanData& plan, std::span<const uint64_t> patterns) {
  std::vector<Weight> weights;
  internal::VisitSample(plan.type, [&]<typename S>(S) {
    if constexpr (sizeof(typename S::Bits) <= 2) {
      using K = decltype(internal::KeyedFor<S>());
      const auto pattern_of = [](size_t key) -> size_t {
        return K::BitsOf(static_cast<typename K::Bits>(key));
      };
      const auto& bins = std::get<internal::Bins<typename S::Compare>>(plan.bins);
      if (bins.reached == 0) return;
      // Most values of 16 bits do not occur: many are left out at a time. The patterns of a block
      // of keys lie together, too.
      constexpr size_t kBlock = 16;
      for (size_t block = 0; block < patterns.size(); block += kBlock) {
        const auto counts = patterns.subspan(pattern_of(block) / kBlock * kBlock, kBlock);
        if (std::accumulate(counts.begin(), counts.end(), uint64_t{0}, std::bit_or<>()) == 0)
          continue;
        for (size_t key = block; key < block + kBlock; ++key) {
          const size_t p = pattern_of(key);
          const auto x = S::Widen(static_cast<typename S::Bits>(p));
          if (patterns[p] == 0 || !(x >= bins.lower && x <= bins.upper)) continue;
          const double value = static_cast<double>(x) + 0.0;
          if (!weights.empty() && weights.back().value == value) {  // -0.0 and 0.0
            weights.back().count += patterns[p];
          } else {
            weights.push_back({value, patterns[p]});
          }
        }
      }
    }
  });
  return weights;
}

// --- Types of 32 and 64 bits

// Median and quantiles of the samples in bins.
void SetOrder(std::span<const std::byte> samples, const Plan& plan, const Histogram& histogram,
              std::span<const double> quantiles, Statistics& out) {
  uint64_t total = 0;
  for (const uint64_t count : histogram.counts) total += count;
  // In ascending order the samples below come first, then those in bins.
  std::vector<uint64_t> ranks = {(total - 1) / 2, total / 2};
  internal::AppendRanks(total, quantiles, ranks);
  for (uint64_t& rank : ranks) rank += histogram.below;
  const std::vector<uint64_t> keys = internal::KeysAtRanks(samples, plan.type(), ranks, 1);
  const auto at = [&](uint64_t rank) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank + histogram.below);
    const uint64_t key = keys[static_cast<size_t>(found - ranks.begin())];
    return internal::ValueOfBits(internal::BitsOfKey(key, plan.type()), plan.type());
  };
  out.median = std::midpoint(at((total - 1) / 2), at(total / 2));
  for (const double q : quantiles) out.quantiles.push_back(internal::QuantileOf(total, q, at));
}

}  // namespace

// Merges two sets of moments by the formula of T. Chan, G. Golub and R. LeVeque, 1979.
void SampleStatistics::Moments::Merge(const Moments& more) {
  if (more.count == 0) return;
  const auto n = static_cast<double>(count), m = static_cast<double>(more.count);
  const double distance = more.mean - mean;
  count += more.count;
  mean += distance * (m / (n + m));
  squares += more.squares + distance * distance * (n * m / (n + m));
}

SampleStatistics::SampleStatistics(const Plan& plan) : plan_(plan) {
  const size_t bytes = SampleBytes(plan.type());
  if (bytes <= 2) patterns_.resize(size_t{1} << 8 * bytes);
}

void SampleStatistics::Add(std::span<const std::byte> samples) {
  const internal::FloatMode mode;
  internal::VisitSample(plan_.type(), [&]<typename S>(S) {
    using Bits = typename S::Bits;
    using C = typename S::Compare;
    if constexpr (sizeof(Bits) == 1) {
      const Fragment all = FragmentOf(samples);
      AddPayload(Plan(), {&all, 1}, patterns_);
    } else if constexpr (sizeof(Bits) == 2) {
      for (size_t i = 0; i < samples.size(); i += sizeof(Bits)) {
        ++patterns_[internal::LoadBits<uint16_t>(samples.data() + i)];
      }
    } else {
      const auto& bins = std::get<internal::Bins<C>>(plan_.data().bins);
      if (bins.reached == 0) return;
      const double scale = internal::ScaleOf(bins);
      const size_t count = samples.size() / sizeof(Bits);
      for (size_t at = 0; at < count; at += internal::kDistancesMax) {
        internal::DistanceSums sums;
        cpu::CallFast([&]() HISTOGRAM_INLINE {
          sums = internal::SumsOf<S>(samples.data() + at * sizeof(Bits),
                                     std::min(internal::kDistancesMax, count - at), bins.lower,
                                     bins.upper, scale);
        });
        if (sums.count == 0) continue;
        moments_.Merge({.count = static_cast<uint64_t>(sums.count),
                        .mean = sums.distances / sums.count,
                        .squares = sums.squares});
      }
      using K = decltype(internal::KeyedFor<S>());
      const auto key_of = [](C x) { return K::KeyOf(std::bit_cast<typename K::Bits>(x)); };
      const auto keys = internal::FindKeys<K>(samples, key_of(bins.lower),
                                              key_of(bins.upper) - key_of(bins.lower));
      if (keys.least > keys.greatest) return;
      const auto value = [](auto key) {
        return static_cast<double>(std::bit_cast<C>(K::BitsOf(key)));
      };
      minimum_ = std::min(minimum_, value(keys.least));
      maximum_ = std::max(maximum_, value(keys.greatest));
    }
  });
}

void SampleStatistics::Merge(const SampleStatistics& more) {
  assert(patterns_.size() == more.patterns_.size());
  const internal::FloatMode mode;
  for (size_t i = 0; i < patterns_.size(); ++i) patterns_[i] += more.patterns_[i];
  minimum_ = std::min(minimum_, more.minimum_);
  maximum_ = std::max(maximum_, more.maximum_);
  moments_.Merge(more.moments_);
}

Statistics SampleStatistics::Finish(const Histogram& histogram,
                                    std::span<const double> quantiles) const {
  const internal::FloatMode mode;
  Statistics out;
  uint64_t total = 0;
  for (const uint64_t count : histogram.counts) total += count;
  if (total == 0) return out;
  out.entropy_bits = EntropyBits(histogram.counts, total);
  if (!patterns_.empty()) {
    SetFromWeights(WeightsOf(plan_.data(), patterns_), total, /*of_bytes=*/false, quantiles, out);
    return out;
  }
  std::visit(
      [&](const auto& bins) {
        const double scale = internal::ScaleOf(bins);
        const auto n = static_cast<double>(moments_.count);
        const double mean = (static_cast<double>(bins.lower) * scale + moments_.mean) / scale;
        // Rounding brings it beyond the samples where they fill little of the bins' range.
        out.mean = std::min(std::max(mean, minimum_ + 0.0), maximum_ + 0.0);
        out.standard_deviation = std::sqrt(moments_.squares / n) / scale;
      },
      plan_.data().bins);
  out.minimum = minimum_ + 0.0;
  out.maximum = maximum_ + 0.0;
  const std::vector<double> edges = plan_.binning().ComputeEdges();
  std::vector<Weight> weights;
  std::vector<double> upper;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    weights.push_back({edges[i] / 2 + edges[i + 1] / 2, histogram.counts[i]});
    upper.push_back(edges[i + 1]);
  }
  const std::optional<size_t> split = OtsuSplit(weights, /*of_bytes=*/false);
  if (split.has_value()) out.otsu_threshold = upper[*split];
  return out;
}

Statistics ComputeStatistics(std::span<const std::byte> samples, const Plan& plan,
                             const Histogram& histogram, std::span<const double> quantiles) {
  const internal::FloatMode mode;
  SampleStatistics summary(plan);
  summary.Add(samples);
  Statistics out = summary.Finish(histogram, quantiles);
  const bool narrow = SampleBytes(plan.type()) <= 2;
  if (!narrow && out.entropy_bits.has_value()) SetOrder(samples, plan, histogram, quantiles, out);
  return out;
}

Statistics ComputeStatistics(Values values, const Binning& binning,
                             std::span<const double> quantiles) {
  const internal::FloatMode mode;
  Statistics statistics;
  std::array<Weight, kByteValues> occurring;
  size_t size = 0;
  uint64_t total = 0;
  for (uint32_t v = 0; v < kByteValues; ++v) {
    if (binning.table()[v] < 0 || values[v] == 0) continue;
    occurring[size++] = {static_cast<double>(v), values[v]};
    total += values[v];
  }
  if (total == 0) return statistics;
  SetFromWeights({occurring.data(), size}, total, /*of_bytes=*/true, quantiles, statistics);
  Histogram histogram;
  FoldInto(values, binning, histogram);
  statistics.entropy_bits = EntropyBits(histogram.counts, total);
  return statistics;
}

}  // namespace histogram
