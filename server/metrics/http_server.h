// A small HTTP server for operators: /metrics, /healthz and /readyz, a page at / that links them,
// and nothing else.
//
// One thread serves all clients at once, so that none waits for a slow one. Clients that take
// longer than the time-out over a request or its answer are dropped; where there are many, the
// oldest are. It keeps a few descriptors back, so that it answers when the process has no others.
// The callbacks run on its thread.
#ifndef HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_
#define HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace histogram::server {

struct Readiness {
  bool ready = true;
  std::string reason;  // one line: "draining", "backend cuda is required and none is up"
};

struct HttpServerOptions {
  std::string listen;  // HOST:PORT or [V6]:PORT; port 0 for any free one; empty: off
  std::function<std::string()> metrics;  // the text of /metrics
  std::function<Readiness()> readiness;  // for /readyz
  std::function<bool()> liveness;        // for /healthz
  uint32_t timeout_ms = 5000;            // for a request to arrive, and for its answer to leave
};

class HttpServer {
 public:
  // Listens once it returns. INVALID_ARGUMENT for an address that is none, UNAVAILABLE where it
  // cannot be bound: the message names the address and the reason. Off: a server that listens
  // nowhere.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  // Waits for the requests that are being answered; the callbacks are not called afterwards.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Where it listens, "127.0.0.1:9464", with the port that was picked; empty when it is off.
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }

 private:
  struct Impl;
  HttpServer();

  std::unique_ptr<Impl> impl_;
  std::string address_;
  uint16_t port_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_
