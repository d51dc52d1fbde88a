// Puts load on a server and measures what comes back: `histogram-client bench` and the service
// benchmark are thin shells around it.
//
// Closed loop: each connection keeps a fixed number of requests in flight (throughput). Open loop:
// requests start on schedule, whether or not earlier ones have been answered, and a latency counts
// from the scheduled start, so that a slow server cannot hide its delays (no coordinated omission).
// Payload bytes are made once and shared by all requests: a request costs the client no copy.
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
  std::string server = "127.0.0.1:50051";
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: plaintext
  // Expected in the server's certificate instead of the address's host; empty: that host.
  std::string tls_server_name;
  std::string bearer_token;  // sent with each call; empty: none
  LoadApi api = LoadApi::kCompute;
  uint32_t connections = 1;
  uint32_t in_flight = 8;      // closed loop: requests of each connection; ComputeMany: its window
  double rate_per_second = 0;  // 0: closed loop; else open loop over all connections
  double duration_s = 10;
  double warm_up_s = 1;  // runs first and is not measured
  uint64_t payload_bytes = 65536;
  std::string distribution = "uniform";
  // > 0: samples of f32, normally distributed, into so many even bins over [-4, 4], instead of
  // bytes of that distribution.
  uint32_t float_bins = 0;
  // Compares each reply's counts with the expected ones; without it only failures are noticed.
  bool verify = true;
  // Called about once a second from the calling thread; may be empty.
  std::function<void(const LoadProgress&)> on_progress;
  // Asked often; true: begin nothing more, and return what has been measured. May be empty.
  std::function<bool()> stop;
};

struct LoadResult {
  uint64_t requests = 0;  // answered in the measured time
  uint64_t errors = 0;    // failed calls and wrong answers
  uint64_t wrong = 0;     // of these: replies whose counts were not the expected ones
  double seconds = 0;     // measured
  double client_cpu_seconds = 0;
  LatencyRecorder latency;   // empty for Accumulate
  LatencyRecorder refusals;  // of unary calls that were refused
  // How often each message came, the server's own where it sent one; of a bounded number of
  // different ones, so that their sum may be less than `errors`.
  std::map<std::string, uint64_t> error_messages;
  bool stopped = false;  // by LoadOptions::stop

  double requests_per_second() const {
    return seconds > 0 ? static_cast<double>(requests) / seconds : 0;
  }
};

// The distributions of MakePayload.
std::vector<std::string> LoadDistributions();
// Deterministic bytes; INVALID_ARGUMENT for an unknown distribution (the message lists them).
absl::StatusOr<std::string> MakePayload(const std::string& distribution, uint64_t bytes);
// Deterministic floats. REQUIRES: bytes is a multiple of 4.
std::string MakeFloatPayload(uint64_t bytes);

// Runs for warm_up_s + duration_s, or until it is told to stop, and then until what was begun is
// answered. Blocks.
// UNAVAILABLE where no connection is made within 5 s; INVALID_ARGUMENT for bad options.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_GENERATOR_H_
