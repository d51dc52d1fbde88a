// The port for operators: /metrics, /healthz and /readyz.
#ifndef HISTOGRAM_SERVER_HTTP_OPERATOR_PORT_H_
#define HISTOGRAM_SERVER_HTTP_OPERATOR_PORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/http_server.h"

namespace histogram::server {

struct OperatorPortOptions {
  std::string listen;                    // HOST:PORT or [V6]:PORT; port 0: any free one; empty: off
  std::function<std::string()> metrics;  // the text of /metrics
  // For /readyz: why the server is not ready, in one line; empty: it is.
  std::function<std::string()> not_ready;
  std::function<bool()> live;  // for /healthz
  uint32_t timeout_ms = 5000;  // for a request to arrive, and for its answer to leave
};

// As HttpServer::Start; null if it is off. The callbacks run on the server's thread.
absl::StatusOr<std::unique_ptr<HttpServer>> StartOperatorPort(OperatorPortOptions options);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_OPERATOR_PORT_H_
