// Every setting of the server, its default, and where it comes from.
// Precedence: flags over HISTSVC_ environment variables over a config file over these defaults.
//
// Plain values; ParseConfig is a thread-safe function without state. The name of a number says its
// unit. The flag of a member, its limits and its help stand in table.cc.
#ifndef HISTOGRAM_SERVER_CONFIG_CONFIG_H_
#define HISTOGRAM_SERVER_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend_factory.h"
#include "server/base/logging.h"
#include "server/batching/limits.h"

namespace histogram::server {

struct TransportConfig {
  std::vector<std::string> listen = {"127.0.0.1:50051"};  // HOST:PORT, [V6]:PORT or unix:PATH
  uint64_t payload_bytes_max = uint64_t{64} << 20;        // of a unary payload, item or chunk
  uint32_t bin_count_max = 65536;
  uint64_t receive_bytes_max = uint64_t{1} << 30;  // for received messages, over all connections
  uint32_t streams_max = 128;                      // concurrent calls of one connection
  double verify_fraction = 0;                      // of requests recounted by plain loops
  uint32_t receive_threads = 0;        // each with connections of its own; 0: one a usable core
  uint64_t drain_delay_us = 3000000;   // NOT_SERVING, still accepting
  uint64_t drain_us_max = 30000000;    // then everything that is left is cancelled
  uint64_t connection_age_us_max = 0;  // 0: none
  std::string tls_cert;                // PEM chain; with it TCP listeners speak TLS only
  std::string tls_key;                 // PEM
  std::string tls_client_ca;           // PEM; clients must show a certificate of this authority
  bool allow_plaintext = false;        // on addresses that others than this machine can reach
  std::string token_file;              // bearer tokens; empty: anyone who can connect may call
  std::string http_listen;             // HOST:PORT of the service over HTTP; empty: off
  std::string http_hosts;              // names that it goes by beside loopback's, with commas
  std::string http_allow_origins;      // of pages of other sites that may call it, with commas
  uint64_t slow_request_us = 1000000;  // requests that take longer are logged; 0: none
};

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// What follows when a GPU is lost.
enum class OnDeviceLoss : uint8_t {
  kDegrade,  // go on with what is left
  kExit,     // drain and exit 1
};

struct Config {
  TransportConfig transport;
  BatchingLimits batching;
  BackendOptions backend;
  bool require_cuda = false;  // --require-backend cuda
  OnDeviceLoss on_device_loss = OnDeviceLoss::kDegrade;
  std::string metrics_listen = "127.0.0.1:9464";  // empty: off
  bool core_dumps = false;                        // a crash may leave one, payload bytes in it
  std::string port_file;                          // where to write the open addresses; empty: off
  LogConfig log;
};

// Names and values of environment variables.
using Variables = std::vector<std::pair<std::string, std::string>>;
// The process's, as they are now.
Variables ProcessVariables();

struct ParsedConfig {
  // What --help, --help-all, --version and --print-config print on standard output before the
  // program exits 0. Empty: serve with `config`.
  std::string text = {};
  Config config = {};
  // One sentence each, for the log: unknown HISTSVC_ variables, and a metrics port that other
  // machines can reach.
  std::vector<std::string> warnings = {};
  // Where each setting that is not left at its default is set: "--drain-max",
  // "server.toml:3: drain-max".
  std::map<std::string, std::string, std::less<>> origins = {};
};

// The effective configuration of this command line. INVALID_ARGUMENT (or what kept a config file
// from being read) with one sentence for the user otherwise; the program exits 2 then.
absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const Variables& environment);

// What this build is.
struct BuildInfo {
  std::string version;   // 0.1.0
  std::string commit;    // short hash, "-dirty" behind it when there were local changes; "unknown"
  std::string compiler;  // GNU 12.2.0
  std::string type;      // Release, Debug ...
};
const BuildInfo& GetBuildInfo();

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_CONFIG_H_
