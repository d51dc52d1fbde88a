#include "server/metrics/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kPaths[] = "404 not found; there are /metrics, /healthz and /readyz\n";
constexpr char kFrontPage[] = R"(<!DOCTYPE html>
<html lang="en">
<title>histogram-server</title>
<h1>histogram-server</h1>
<ul>
<li><a href="metrics">/metrics</a>: for Prometheus
<li><a href="readyz">/readyz</a>: whether it takes calls now, and if not, why
<li><a href="healthz">/healthz</a>: whether the process is alive
</ul>
</html>
)";

struct Answer {
  int status = 200;
  const char* type = kPlain;
  std::string body;
};

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

Answer Route(const HttpServerOptions& options, std::string_view path) {
  if (path == "/") return {200, kHtml, kFrontPage};
  if (path == "/metrics") return {200, kMetricsType, options.metrics ? options.metrics() : ""};
  if (path == "/healthz") return {200, kPlain, "ok\n"};
  if (path == "/readyz") {
    const Readiness readiness = options.readiness ? options.readiness() : Readiness();
    if (readiness.ready) return {200, kPlain, "ready\n"};
    return {503, kPlain, absl::StrCat("not ready: ", OneLine(readiness.reason), "\n")};
  }
  return {404, kPlain, kPaths};
}

const char* Phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Refused" : "Internal Server Error";
  }
}

void Write(mg_connection* connection, const Answer& answer, bool with_body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            answer.status, Phrase(answer.status), answer.type, answer.body.size(),
            answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (with_body) mg_write(connection, answer.body.data(), answer.body.size());
}

// Every request comes here. No exception may pass through C code.
int Handle(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  const auto& options = *static_cast<const HttpServerOptions*>(request->user_data);
  const std::string_view method = request->request_method == nullptr ? "" : request->request_method;
  const std::string_view path = request->local_uri == nullptr ? "" : request->local_uri;
  Answer answer;
  try {
    if (method == "GET" || method == "HEAD") {
      answer = Route(options, path);
    } else {
      answer = {405, kPlain, "405 method not allowed; use GET\n"};
    }
  } catch (const std::exception&) {
    answer.status = 500;
    answer.body = "500 internal error\n";
  }
  Write(connection, answer, method != "HEAD");
  return answer.status;
}

// What civetweb could not make a request of. Its own page for that calls gmtime, which is not
// thread-safe.
int HandleError(mg_connection* connection, int status, const char* /*message*/) {
  try {
    Write(connection, {status, kPlain, absl::StrCat(status, " ", Phrase(status), "\n")},
          /*with_body=*/true);
  } catch (const std::exception&) {
    mg_disable_connection_keep_alive(connection);  // out of memory: no answer but the close
  }
  return 0;
}

struct Resolved {
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string text;  // numeric, as civetweb takes it
};

std::string NumericAddress(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &six.sin6_addr, host.data(), host.size());
    return absl::StrCat("[", host.data(), "]:", ntohs(six.sin6_port));
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &four.sin_addr, host.data(), host.size());
  return absl::StrCat(host.data(), ":", ntohs(four.sin_port));
}

void SetPort(sockaddr_storage& address, uint16_t port) {
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
}

absl::StatusOr<Resolved> Resolve(const std::string& listen) {
  const absl::StatusOr<Address> address = ParseAddress(listen);
  if (!address.ok() || address->is_unix) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metrics address must be HOST:PORT, not '", listen, "'"));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(address->host.c_str(), absl::StrCat(address->port).c_str(), &hints, &list);
  if (error != 0 || list == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve the metrics address ", listen, ": ", gai_strerror(error)));
  }
  Resolved resolved;
  resolved.length = list->ai_addrlen;
  std::memcpy(&resolved.address, list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  resolved.text = NumericAddress(resolved.address);
  return resolved;
}

// What civetweb complains about while this thread starts a server; null at any other time.
thread_local std::string* start_complaint = nullptr;

int TakeComplaint(const mg_connection* /*connection*/, const char* message) {
  // The first one is the cause, the others follow from it.
  if (start_complaint != nullptr && start_complaint->empty()) *start_complaint = OneLine(message);
  return 1;  // nothing is written by civetweb itself
}

// "cannot bind to 127.0.0.1:9464: 98 (Address already in use)" is how civetweb says it; the reason
// is what it has in brackets.
absl::Status CannotListen(const std::string& listen, const std::string& complaint) {
  absl::string_view reason = complaint;
  if (const size_t bracket = reason.rfind('('); absl::EndsWith(reason, ")") && bracket > 0) {
    reason = reason.substr(bracket + 1, reason.size() - bracket - 2);
  }
  return absl::UnavailableError(
      absl::StrCat("cannot bind --metrics-listen ", listen, reason.empty() ? "" : ": ", reason));
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpServerOptions o) : options(std::move(o)) {}
  ~Impl() {
    if (context != nullptr) Stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // civetweb looks whether it shall stop once in two seconds, or when somebody connects.
  void Stop() {
    absl::Notification stopped;
    std::thread waker([this, &stopped] {
      do {
        const int fd = socket(bound.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) continue;
        static_cast<void>(connect(fd, reinterpret_cast<const sockaddr*>(&bound), bound_length));
        close(fd);
      } while (!stopped.WaitForNotificationWithTimeout(absl::Milliseconds(10)));
    });
    mg_stop(context);
    stopped.Notify();
    waker.join();
  }

  const HttpServerOptions options;  // civetweb's threads read it until mg_stop returns
  mg_context* context = nullptr;
  sockaddr_storage bound{};  // where it listens, with the port that was picked
  socklen_t bound_length = 0;
};

HttpServer::HttpServer() = default;
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  std::unique_ptr<HttpServer> server(new HttpServer);
  if (options.listen.empty()) return server;
  const absl::StatusOr<Resolved> resolved = Resolve(options.listen);
  if (!resolved.ok()) return resolved.status();

  const std::string threads = absl::StrCat(std::max(1U, options.thread_count));
  const std::string timeout = absl::StrCat(std::max(1U, options.timeout_ms));
  std::vector<const char*> settings = {"listening_ports",
                                       resolved->text.c_str(),
                                       "num_threads",
                                       threads.c_str(),
                                       "request_timeout_ms",
                                       timeout.c_str(),
                                       "enable_keep_alive",
                                       "no",
                                       "max_request_size",
                                       "16384",
                                       "enable_directory_listing",
                                       "no",
                                       nullptr};
  server->impl_ = std::make_unique<Impl>(std::move(options));
  mg_callbacks callbacks{};
  callbacks.begin_request = Handle;
  callbacks.http_error = HandleError;
  callbacks.log_message = TakeComplaint;
  std::string complaint;
  start_complaint = &complaint;
  Impl& impl = *server->impl_;
  impl.context =
      mg_start(&callbacks, const_cast<HttpServerOptions*>(&impl.options), settings.data());
  start_complaint = nullptr;
  if (impl.context == nullptr) return CannotListen(impl.options.listen, complaint);

  std::array<mg_server_port, 2> ports{};
  if (mg_get_server_ports(impl.context, static_cast<int>(ports.size()), ports.data()) < 1) {
    return CannotListen(impl.options.listen, complaint);
  }
  server->port_ = static_cast<uint16_t>(ports[0].port);
  impl.bound = resolved->address;
  impl.bound_length = resolved->length;
  SetPort(impl.bound, server->port_);
  server->address_ = NumericAddress(impl.bound);
  return server;
}

}  // namespace histogram::server
