// Every setting of the server: its default, its limits, and where it comes from.
// Precedence: flags over HISTSVC_ environment variables over a config file over these defaults.
#ifndef HISTOGRAM_SERVER_CONFIG_H_
#define HISTOGRAM_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend_factory.h"
#include "server/batching/limits.h"

namespace histogram::server {

struct TransportConfig {
  std::vector<std::string> listen = {"127.0.0.1:50051"};  // HOST:PORT, [V6]:PORT or unix:PATH
  uint64_t payload_bytes_max = uint64_t{64} << 20;        // of a unary payload, item or chunk
  uint32_t bin_count_max = 65536;
  uint32_t quantiles_max = 1024;
  uint64_t receive_bytes_max = uint64_t{1} << 30;  // gRPC's quota for received messages
  uint32_t stream_payloads_max = 64;               // unanswered payloads of one ComputeMany
  uint32_t streams_max = 1024;                     // concurrent calls of one connection
  double verify_fraction = 0;                      // of requests recounted with another kernel
  bool reflection = true;
  bool reuse_port = false;
  uint64_t drain_delay_us = 3000000;  // NOT_SERVING, still accepting
  uint64_t drain_us_max = 30000000;   // then everything that is left is cancelled
  uint64_t connection_age_us_max = 0;  // 0: none
  uint64_t keepalive_min_interval_us = 10000000;  // clients that ping faster are disconnected
  uint32_t header_bytes_max = 16384;
};

struct LogConfig {
  std::string level = "info";   // trace, debug, info, warn, error, off
  std::string format = "text";  // text, json
};

struct Config {
  TransportConfig transport;
  BatchingLimits batching;
  BackendOptions backend;
  bool require_cuda = false;               // --require-backend cuda
  std::string on_device_loss = "degrade";  // degrade, exit
  std::string metrics_listen = "127.0.0.1:9464";  // empty: off
  LogConfig log;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_H_
