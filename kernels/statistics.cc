#include <histogram/statistics.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/float_mode.h"
#include "kernels/weights.h"

namespace histogram {
namespace {

__extension__ using uint128 = unsigned __int128;
using Values = std::span<const uint64_t, kByteValues>;

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

// With N samples of sum S, of which n of sum s are <= t, the between-class variance is
// (S n - s N)² / (n (N - n)), divided by N². S n >= s N, and for N < 2^61 the difference, if not
// the products, has 128 bits. Fractions that differ clearly are compared in floating
// point, close ones exactly. So the smallest of equally good thresholds wins. REQUIRES: the weights
// are of bytes, ascend, and add up to `total`.
std::optional<double> OtsuThreshold(std::span<const internal::Weight> weights, uint64_t total) {
  struct Split {
    double threshold;
    uint64_t count;
    uint128 sum;
    long double variance;
  };
  uint128 all = 0;  // their sum
  for (const auto& [value, count] : weights) all += uint128{count} * static_cast<uint32_t>(value);
  const auto greater = [&](const Split& a, const Split& b) {
    const long double margin = 1e-12L * (a.variance + b.variance);
    if (a.variance > b.variance + margin) return true;
    if (b.variance > a.variance + margin) return false;
    const Wide of_a(all * a.count - a.sum * total), of_b(all * b.count - b.sum * total);
    return of_b * of_b * Wide(a.count) * Wide(total - a.count) <
           of_a * of_a * Wide(b.count) * Wide(total - b.count);
  };

  std::optional<Split> best;
  uint64_t up_to = 0;
  uint128 sum = 0;
  for (const auto& [value, count] : weights) {
    up_to += count;
    if (up_to == total) break;
    sum += uint128{count} * static_cast<uint32_t>(value);
    const auto n = static_cast<long double>(up_to), rest = static_cast<long double>(total - up_to);
    const long double distance =
        static_cast<long double>(sum) / n - static_cast<long double>(all - sum) / rest;
    const Split split{value, up_to, sum, n * rest * distance * distance};
    if (!best.has_value() || greater(split, *best)) best = split;
  }
  if (!best.has_value()) return std::nullopt;
  return best->threshold;
}

double EntropyBits(Values values, const Binning& binning, uint64_t total) {
  struct Share {
    int32_t bin;
    uint64_t count;
  };
  std::array<Share, kByteValues> shares;
  size_t size = 0;
  for (uint32_t v = 0; v < kByteValues; ++v) {
    if (binning.table()[v] >= 0 && values[v] > 0) shares[size++] = {binning.table()[v], values[v]};
  }
  std::sort(shares.begin(), shares.begin() + size,
            [](const Share& a, const Share& b) { return a.bin < b.bin; });
  double entropy = 0;
  const auto n = static_cast<double>(total);
  for (size_t i = 0; i < size;) {
    uint64_t count = 0;
    for (const int32_t bin = shares[i].bin; i < size && shares[i].bin == bin; ++i) {
      count += shares[i].count;
    }
    const double share = static_cast<double>(count) / n;
    if (share < 1) entropy -= share * std::log2(share);
  }
  return entropy;
}

}  // namespace

Statistics ComputeStatistics(Values values, const Binning& binning,
                             std::span<const double> quantiles) {
  const internal::FloatMode mode;
  Statistics statistics;
  std::array<internal::Weight, kByteValues> occurring;
  size_t size = 0;
  uint64_t total = 0;
  for (uint32_t v = 0; v < kByteValues; ++v) {
    if (binning.table()[v] < 0 || values[v] == 0) continue;
    occurring[size++] = {static_cast<double>(v), values[v]};
    total += values[v];
  }
  if (total == 0) return statistics;
  const std::span weights(occurring.data(), size);
  internal::SetFromWeights(weights, total, quantiles, statistics);
  statistics.entropy_bits = EntropyBits(values, binning, total);
  statistics.otsu_threshold = OtsuThreshold(weights, total);
  return statistics;
}

}  // namespace histogram
