// Asks a server's HTTP port for metrics whether the server is ready. That port is plain HTTP
// whatever the gRPC port demands, so the question needs no certificate and no token.
#ifndef HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_
#define HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace histogram::cli {

struct HttpAnswer {
  int status = 0;    // HTTP's: 200, 503, ...
  std::string body;  // at most 4 KiB of it
};

struct HttpTarget {
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;
};

// Of HOST:PORT (then the path is /readyz) or a URL, http://HOST[:PORT][/PATH]. INVALID_ARGUMENT.
absl::StatusOr<HttpTarget> ParseHttpTarget(const std::string& text);

// GET. Blocks until it is answered, or the deadline. INVALID_ARGUMENT: no such host. UNAVAILABLE:
// nobody answers, or not with HTTP. DEADLINE_EXCEEDED. Thread-safe.
absl::StatusOr<HttpAnswer> HttpGet(const HttpTarget& target, absl::Time deadline);

}  // namespace histogram::cli

#endif  // HISTOGRAM_CLIENT_CLI_COMMANDS_HTTP_HEALTH_H_
