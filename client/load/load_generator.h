// Puts load on a server and measures its answers. `histogram-client bench` and the service
// benchmark use it.
//
// Closed loop: each connection keeps a fixed number of requests in flight; measures throughput.
// Open loop: requests start on schedule, whether or not earlier ones are answered. Latencies count
// from the scheduled start, so that a slow server cannot hide its delays (no coordinated omission).
// All requests share one payload: the client does not copy it.
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_

#include <histogram/client.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace histogram::client {

// Latencies with a bounded relative error, in constant memory.
//
// A log-linear histogram in the manner of HdrHistogram (G. Tene). Each power of two is cut into 128
// equal parts, so a percentile is at most 0.8 % above the measured latency.
// Not thread-safe: use one recorder for each thread and merge them.
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
  // The exponent and the first seven bits of ns + 1 as a double choose the bucket.
  static constexpr int kShift = 52 - 7;
  static constexpr uint64_t kFirst = std::bit_cast<uint64_t>(1.0) >> kShift;
  static constexpr size_t kBuckets = 65 << 7;

  static size_t IndexOf(uint64_t ns) {
    return (std::bit_cast<uint64_t>(static_cast<double>(ns) + 1) >> kShift) - kFirst;
  }
  static uint64_t UpperBound(size_t index) {
    const auto next = std::bit_cast<double>((index + 1 + kFirst) << kShift);
    return static_cast<uint64_t>(std::ceil(next) - 2);
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

enum class LoadApi : uint8_t { kCompute, kComputeMany, kAccumulate };

// Of the measured time. But a stream that fails, and a wrong answer, count whenever they come.
struct LoadResult {
  uint64_t requests = 0;     // answered
  uint64_t begun = 0;        // by a schedule
  uint64_t errors = 0;       // failed calls and wrong answers
  uint64_t wrong = 0;        // of these: replies with wrong counts
  uint64_t unavailable = 0;  // of the errors: calls that ended UNAVAILABLE
  double seconds = 0;
  double client_cpu_seconds = 0;
  LatencyRecorder latency;   // empty for Accumulate
  LatencyRecorder refusals;  // of unary calls that were refused
  // The count of each error message (the server's, if it sent one). The number of different
  // messages is bounded, so their sum may be less than `errors`.
  std::map<std::string, uint64_t> error_messages;
  bool stopped = false;  // by LoadOptions::stop

  double requests_per_second() const {
    return seconds > 0 ? static_cast<double>(requests) / seconds : 0;
  }
};

struct LoadOptions {
  std::string server;
  ConnectOptions connect;  // of each connection, without balancing and retries
  LoadApi api = LoadApi::kCompute;
  uint32_t connections = 1;
  uint32_t in_flight = 8;      // closed loop: unanswered requests of each connection or stream
  double rate_per_second = 0;  // 0: closed loop; else open loop over all connections
  double duration_s = 10;
  double warm_up_s = 1;  // runs first and is not measured
  uint64_t payload_bytes = 65536;
  // 0: uniformly distributed bytes. > 0: normally distributed f32 samples, in this many even bins
  // over [-4, 4].
  uint32_t float_bins = 0;
  // With float_bins: each request has a spec of its own. Its range begins a tiny bit below -4.
  bool new_ranges = false;
  // Compares each reply's counts with the expected ones. false: notices failed calls only.
  bool verify = true;
  // Called often. If it returns true, the run begins nothing more and returns its result so far.
  std::function<bool()> stop;
};

// Runs for warm_up_s + duration_s, or until `stop` returns true, or until calls have ended
// UNAVAILABLE and no answer has come for a second. Then it waits for the requests that it has
// begun. UNAVAILABLE: no connection within 5 s. RESOURCE_EXHAUSTED: the system allows too few
// threads or descriptors. INVALID_ARGUMENT: options that contradict each other. REQUIRES:
// connections, in_flight and duration_s are > 0; `stop` is set; Client::Connect takes
// `server` and `connect`.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
