#include <histogram/statistics.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/float_mode.h"
#include "kernels/quantile.h"

namespace histogram {
namespace {

__extension__ using uint128 = unsigned __int128;
using Values = std::span<const uint64_t, kByteValues>;

constexpr uint64_t kExactDouble = uint64_t{1} << 53;  // integers up to here are doubles

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

  // The distance |a - b|.
  friend Wide Distance(const Wide& a, const Wide& b) {
    const Wide& larger = a < b ? b : a;
    const Wide& smaller = a < b ? a : b;
    Wide result(0);
    uint64_t borrow = 0;
    for (size_t i = 0; i < kLimbs; ++i) {
      const uint64_t difference = uint64_t{larger.limbs_[i]} - smaller.limbs_[i] - borrow;
      result.limbs_[i] = static_cast<uint32_t>(difference);
      borrow = difference >> 63;
    }
    return result;
  }

  friend bool operator<(const Wide& a, const Wide& b) {
    return std::lexicographical_compare(a.limbs_.rbegin(), a.limbs_.rend(), b.limbs_.rbegin(),
                                        b.limbs_.rend());
  }

 private:
  static constexpr size_t kLimbs = 16;
  std::array<uint32_t, kLimbs> limbs_{};  // least significant first
};

// The samples in bins, as a sorted sequence.
class Binned {
 public:
  Binned(Values values, const Binning& binning) {
    for (uint32_t v = 0; v < kByteValues; ++v) {
      if (binning.table()[v] >= 0) counts_[v] = values[v];
      total_ += counts_[v];
      up_to_[v] = total_;
      sum_ += uint128{counts_[v]} * v;
      const uint64_t square = uint64_t{v} * v;
      sum_of_squares_ += uint128{counts_[v]} * square;
    }
  }

  uint64_t total() const { return total_; }
  uint64_t count(uint32_t value) const { return counts_[value]; }

  // The sample at `rank`, counted from 0, in ascending order. REQUIRES: rank < total().
  uint32_t At(uint64_t rank) const {
    return static_cast<uint32_t>(std::upper_bound(up_to_.begin(), up_to_.end(), rank) -
                                 up_to_.begin());
  }

  double Mean() const {
    // If a double holds the sum exactly, this quotient is correctly rounded, as numpy's is.
    if (sum_ <= kExactDouble) return static_cast<double>(sum_) / static_cast<double>(total_);
    return static_cast<double>(static_cast<long double>(sum_) / static_cast<long double>(total_));
  }

  double StandardDeviation() const {
    const auto n = static_cast<long double>(total_);
    long double scatter = 0;  // total² times the variance
    if (total_ < (uint64_t{1} << 56)) {
      scatter = static_cast<long double>(sum_of_squares_ * total_ - sum_ * sum_);  // below 2^128
    } else {
      const long double mean = static_cast<long double>(sum_) / n;
      for (uint32_t v = 0; v < kByteValues; ++v) {
        scatter += n * static_cast<long double>(counts_[v]) * (v - mean) * (v - mean);
      }
    }
    return static_cast<double>(std::sqrt(scatter) / n);
  }

  double Mode() const {
    return static_cast<double>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin());
  }

  double Quantile(double q) const {
    return internal::QuantileOf(total_, q,
                                [this](uint64_t rank) { return static_cast<double>(At(rank)); });
  }

  std::optional<double> OtsuThreshold() const;

 private:
  ValueCounts counts_{};
  ValueCounts up_to_{};  // samples <= value
  uint64_t total_ = 0;
  uint128 sum_ = 0;
  uint128 sum_of_squares_ = 0;
};

// With N samples of sum S, of which n of sum s are <= t, the between-class variance is
// (s N - S n)² / (n (N - n)), divided by N². Fractions that differ clearly are compared in floating
// point, close ones exactly. So the smallest of equally good thresholds wins.
std::optional<double> Binned::OtsuThreshold() const {
  struct Split {
    uint32_t threshold;
    uint64_t count;
    uint128 sum;
    long double variance;
  };
  const auto numerator = [this](const Split& split) {
    return Distance(Wide(split.sum) * Wide(total_), Wide(sum_) * Wide(split.count));
  };
  const auto greater = [&](const Split& a, const Split& b) {
    const long double margin = 1e-12L * (a.variance + b.variance);
    if (a.variance > b.variance + margin) return true;
    if (b.variance > a.variance + margin) return false;
    const Wide of_a = numerator(a), of_b = numerator(b);
    return of_b * of_b * Wide(a.count) * Wide(total_ - a.count) <
           of_a * of_a * Wide(b.count) * Wide(total_ - b.count);
  };

  std::optional<Split> best;
  uint128 sum = 0;
  for (uint32_t t = 0; t < kByteValues; ++t) {
    if (counts_[t] == 0) continue;  // the same split as the value before
    const uint64_t count = up_to_[t];
    if (count == total_) break;
    sum += uint128{counts_[t]} * t;
    const auto n = static_cast<long double>(count), rest = static_cast<long double>(total_ - count);
    const long double distance =
        static_cast<long double>(sum) / n - static_cast<long double>(sum_ - sum) / rest;
    const Split split{t, count, sum, n * rest * distance * distance};
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
  const Binned binned(values, binning);
  const uint64_t total = binned.total();
  if (total == 0) return statistics;
  statistics.minimum = binned.At(0);
  statistics.maximum = binned.At(total - 1);
  statistics.mean = binned.Mean();
  statistics.standard_deviation = binned.StandardDeviation();
  statistics.median = (binned.At((total - 1) / 2) + binned.At(total / 2)) / 2.0;
  statistics.mode = binned.Mode();
  statistics.entropy_bits = EntropyBits(values, binning, total);
  statistics.otsu_threshold = binned.OtsuThreshold();
  statistics.quantiles.reserve(quantiles.size());
  for (const double q : quantiles) statistics.quantiles.push_back(binned.Quantile(q));
  return statistics;
}

}  // namespace histogram
