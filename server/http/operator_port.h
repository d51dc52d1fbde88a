// The port for operators: /metrics, /healthz, /readyz, and a page at / that links them.
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

class OperatorPort {
 public:
  // As HttpServer::Start. Off: it does not listen. The callbacks run on the server's thread.
  static absl::StatusOr<std::unique_ptr<OperatorPort>> Start(OperatorPortOptions options);

  // The address that it listens on, with the actual port. Empty if it is off.
  std::string address() const { return server_ == nullptr ? "" : server_->address(); }

 private:
  explicit OperatorPort(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}

  std::unique_ptr<HttpServer> server_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_OPERATOR_PORT_H_
