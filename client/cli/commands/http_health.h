// Asks a server's HTTP port for metrics whether the server is ready. That port always speaks plain
// HTTP, so the request needs no certificate and no token.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace histogram::cli {

struct HttpAnswer {
  int status = 0;    // HTTP's: 200, 503, ...
  std::string body;  // its first 4 KiB
};

struct HttpTarget {
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;
};

// Parses HOST:PORT (the path is /readyz) or http://HOST[:PORT][/PATH]. INVALID_ARGUMENT for others.
absl::StatusOr<HttpTarget> ParseHttpTarget(const std::string& text);

// Sends a GET request and waits for the answer. INVALID_ARGUMENT: the host does not exist.
// UNAVAILABLE: no answer, or not HTTP. DEADLINE_EXCEEDED: no answer in time. Thread-safe.
absl::StatusOr<HttpAnswer> HttpGet(const HttpTarget& target, absl::Time deadline);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_
