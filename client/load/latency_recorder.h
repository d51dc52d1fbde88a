// Latencies with a bounded relative error, in constant memory.
//
// A log-linear histogram in the manner of HdrHistogram (G. Tene). Each power of two is cut into 128
// equal parts, so a percentile is at most 0.8 % above the measured latency.
// Not thread-safe: use one recorder for each thread and merge them.
#ifndef HISTOGRAM_CLIENT_LOAD_LATENCY_RECORDER_H_
#define HISTOGRAM_CLIENT_LOAD_LATENCY_RECORDER_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace histogram::client {

class LatencyRecorder {
 public:
  void Record(uint64_t ns) {
    ++counts_[IndexOf(ns)];
    ++total_;
    sum_ns_ += ns;
    max_ns_ = std::max(max_ns_, ns);
  }

  void Merge(const LatencyRecorder& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    sum_ns_ += other.sum_ns_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }

  uint64_t count() const { return total_; }
  uint64_t max_ns() const { return max_ns_; }
  double mean_ns() const {
    return total_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(total_);
  }

  // The latency that a fraction `q` of the recorded ones does not exceed; 0 if there are none.
  // REQUIRES: 0 <= q <= 1.
  uint64_t QuantileNs(double q) const {
    if (total_ == 0) return 0;
    const auto rank =
        std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(total_))));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::min(UpperBound(i), max_ns_);
    }
    return max_ns_;
  }

 private:
  static constexpr int kPartBits = 7;
  static constexpr uint64_t kParts = uint64_t{1} << kPartBits;
  static constexpr size_t kBuckets = (64 - kPartBits + 1) * kParts;

  // Values below kParts have a bucket each. The top kPartBits + 1 bits of others choose the bucket.
  static size_t IndexOf(uint64_t ns) {
    if (ns < kParts) return ns;
    const int shift = static_cast<int>(std::bit_width(ns)) - kPartBits - 1;
    return static_cast<size_t>(shift) * kParts + (ns >> shift);
  }
  static uint64_t UpperBound(size_t index) {
    if (index < 2 * kParts) return index;
    const size_t shift = index / kParts - 1;
    const uint64_t top = index - shift * kParts;
    return ((top + 1) << shift) - 1;
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LATENCY_RECORDER_H_
