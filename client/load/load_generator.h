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

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/latency_recorder.h"

namespace histogram::client {

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
  bool stopped = false;  // by LoadOptions::stop or the deadline

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
  // Ends the run, and the calls that are under way.
  absl::Time deadline = absl::InfiniteFuture();
  uint64_t payload_bytes = 65536;
  // 0: uniformly distributed bytes. > 0: normally distributed f32 samples, in this many even bins
  // over [-4, 4].
  uint32_t float_bins = 0;
  // With float_bins: each request has a spec of its own. Its range begins a tiny bit below -4.
  bool new_ranges = false;
  // Compares each reply's counts with the expected ones. false: notices failed calls only.
  bool verify = true;
  // Called about once a second with the result so far, on the thread of RunLoad.
  std::function<void(const LoadResult&)> on_progress;
  // Called often. If it returns true, the run begins nothing more and returns its result so far.
  std::function<bool()> stop;
};

// Runs for warm_up_s + duration_s, or until `stop` returns true or the deadline, or until calls
// have ended UNAVAILABLE and no answer has come for a second. Then it waits for the requests that
// it has begun. UNAVAILABLE: no connection within 5 s. RESOURCE_EXHAUSTED: the system allows too
// few threads or descriptors. INVALID_ARGUMENT: options that contradict each other. REQUIRES:
// connections, in_flight and duration_s are > 0; the two functions are set; Client::Connect takes
// `server` and `connect`.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
