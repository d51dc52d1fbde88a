// A small HTTP server for operators. It serves /metrics, /healthz, /readyz, and a page at / that
// links them.
//
// One thread serves all clients at once, so that none waits for a slow one. It drops clients that
// take longer than the time-out for a request or its answer. If there are too many, it drops the
// oldest. It reserves a few descriptors, so that it answers when the process has no others. The
// callbacks run on its thread.
#ifndef HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_
#define HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"

namespace histogram::server {

struct HttpServerOptions {
  std::string listen;                    // HOST:PORT or [V6]:PORT; port 0: any free one; empty: off
  std::function<std::string()> metrics;  // the text of /metrics
  // For /readyz: why the server is not ready, in one line; empty: it is.
  std::function<std::string()> not_ready;
  std::function<bool()> live;  // for /healthz
  uint32_t timeout_ms = 5000;  // for a request to arrive, and for its answer to leave
};

class HttpServer {
 public:
  // The server listens when Start returns. INVALID_ARGUMENT for a malformed address, UNAVAILABLE if
  // it cannot be bound; the message names the address and the reason. Off: the server does not
  // listen.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  // Waits for the requests that are being answered. Afterwards it calls no callback.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address that it listens on, with the actual port: "127.0.0.1:9464". Empty if it is off.
  const std::string& address() const { return address_; }

 private:
  class Connection;
  static constexpr size_t kConnectionsMax = 64;
  // Descriptors kept back for clients that come while the process has no others.
  static constexpr size_t kSpareMax = 8;

  explicit HttpServer(HttpServerOptions options);
  absl::Status Listen();
  void Run();
  bool ClientWaits() const;
  // A client's socket, or -1 with errno.
  int AcceptOne();
  void Accept(TimeNs now);
  void Close(std::list<Connection>::iterator which);
  // Makes up for the spare descriptors that were used. False: there are not enough now.
  bool Refill();

  const HttpServerOptions options_;
  std::string address_;
  int listener_ = -1;
  int wake_ = -1;                      // an eventfd: the server is to end
  std::vector<int> spare_;             // duplicates of wake_
  std::list<Connection> connections_;  // the oldest first
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_METRICS_HTTP_SERVER_H_
