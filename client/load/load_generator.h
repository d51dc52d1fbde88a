// Puts load on a server and measures its answers. `histogram-client bench` and the service
// benchmark use it.
//
// Closed loop: each connection keeps a fixed number of requests in flight; measures throughput.
// Open loop: requests start on schedule, whether or not earlier ones are answered. Latencies count
// from the scheduled start, so that a slow server cannot hide its delays (no coordinated omission).
// All requests share one payload: the client does not copy it.
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_

#include <grpcpp/security/credentials.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/latency_recorder.h"

namespace histogram::client {

enum class LoadApi : uint8_t { kCompute, kComputeMany, kAccumulate };

struct LoadProgress {
  double seconds = 0;  // since the measured time began
  uint64_t requests = 0, errors = 0;
  LatencyRecorder latency;  // of the last interval
};

struct LoadOptions {
  std::string server;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // The name that the server's certificate must have; empty: the address's host.
  std::string tls_server_name;
  std::string bearer_token;  // sent with each call; empty: none
  LoadApi api = LoadApi::kCompute;
  uint32_t connections = 1;
  uint32_t in_flight = 8;      // closed loop: unanswered requests of each connection or stream
  double rate_per_second = 0;  // 0: closed loop; else open loop over all connections
  double duration_s = 10;
  double warm_up_s = 1;  // runs first and is not measured
  uint64_t payload_bytes = 65536;
  std::string distribution = "uniform";
  // > 0: instead of bytes, normally distributed f32 samples, in this many even bins over [-4, 4].
  uint32_t float_bins = 0;
  // Compares each reply's counts with the expected ones. false: notices failed calls only.
  bool verify = true;
  // Called about once a second, on the thread of RunLoad.
  std::function<void(const LoadProgress&)> on_progress;
  // Called often. If it returns true, the run begins nothing more and returns its result so far.
  std::function<bool()> stop;
};

struct LoadResult {
  uint64_t requests = 0;     // answered in the measured time
  uint64_t errors = 0;       // failed calls and wrong answers
  uint64_t wrong = 0;        // of these: replies with wrong counts
  uint64_t unavailable = 0;  // of the errors: calls that ended UNAVAILABLE
  double seconds = 0;        // of the measured time
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

// The distributions of MakePayload.
std::vector<std::string> LoadDistributions();
// Deterministic bytes. REQUIRES: `distribution` is one of them.
std::string MakePayload(const std::string& distribution, uint64_t bytes);
// Deterministic floats. REQUIRES: bytes is a multiple of 4.
std::string MakeFloatPayload(uint64_t bytes);

// Runs for warm_up_s + duration_s, or until `stop` returns true, or until calls have ended
// UNAVAILABLE and no answer has come for a second. Then it waits for the requests that it has
// begun. UNAVAILABLE: no connection within 5 s. INVALID_ARGUMENT: options that contradict each
// other. REQUIRES: connections, in_flight and duration_s are > 0; the credentials and the two
// functions are set.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
