#include "server/metrics/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <list>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/spare_descriptors.h"
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
  if (path == "/healthz") {
    if (!options.liveness || options.liveness()) return {200, kPlain, "ok\n"};
    return {503, kPlain, "not live: an event loop stands still\n"};
  }
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
    case 413:
      return "Content Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Refused" : "Internal Server Error";
  }
}

std::string Message(const Answer& answer, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", answer.status, " ", Phrase(answer.status),
                      "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                      "\r\n", answer.status == 405 ? "Allow: GET, HEAD\r\n" : "",
                      "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                      with_body ? answer.body : "");
}

Answer Refusal(int status) {
  return {status, kPlain, absl::StrCat(status, " ", Phrase(status), "\n")};
}

// The whole reply to a request of which all headers are there.
std::string Respond(const HttpServerOptions& options, std::string_view request) {
  const absl::string_view text(request.data(), request.size());
  const std::vector<absl::string_view> words =
      absl::StrSplit(text.substr(0, text.find("\r\n")), ' ');
  if (words.size() != 3 || words[0].empty() || words[1].empty()) {
    return Message(Refusal(400), /*with_body=*/true);
  }
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
    return Message(Refusal(absl::StartsWith(words[2], "HTTP/") ? 505 : 400), /*with_body=*/true);
  }
  if (words[0] != "GET" && words[0] != "HEAD") {
    return Message({405, kPlain, "405 method not allowed; use GET\n"}, /*with_body=*/true);
  }
  absl::string_view path = words[1];
  if (absl::ConsumePrefix(&path, "http://")) {  // as to a proxy
    path = path.substr(std::min(path.find('/'), path.size()));
    if (path.empty()) path = "/";
  }
  path = path.substr(0, path.find('?'));
  Answer answer;
  try {
    answer = Route(options, {path.data(), path.size()});
  } catch (const std::exception&) {
    answer = {500, kPlain, "500 internal error\n"};
  }
  return Message(answer, words[0] == "GET");
}

struct Resolved {
  sockaddr_storage address{};
  socklen_t length = 0;
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
  return resolved;
}

absl::Status CannotListen(const std::string& listen) {
  return absl::UnavailableError(
      absl::StrCat("cannot bind --metrics-listen ", listen, ": ", strerror(errno)));
}

// One client: its request comes, then its reply goes, then its end is awaited, since to close with
// bytes unread would take the reply from it.
class Connection {
 public:
  Connection(int fd, int64_t now_ms, int64_t timeout_ms)
      : fd_(fd), timeout_ms_(timeout_ms), deadline_ms_(now_ms + timeout_ms) {}

  int fd() const { return fd_; }
  int64_t deadline_ms() const { return deadline_ms_; }
  short events() const { return state_ == State::kReply ? POLLOUT : POLLIN; }

  // The socket is ready. False: the connection is over.
  bool Advance(const HttpServerOptions& options, int64_t now_ms) {
    if (state_ == State::kRequest && !Read(options, now_ms)) return false;
    if (state_ == State::kReply && !Write(now_ms)) return false;
    return state_ != State::kEnd || AwaitEnd();
  }

 private:
  enum class State : uint8_t { kRequest, kReply, kEnd };
  static constexpr size_t kRequestBytesMax = 16384;
  static constexpr int64_t kEndMs = 1000;

  static bool Later(ssize_t result) {
    return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  }

  bool Read(const HttpServerOptions& options, int64_t now_ms) {
    std::array<char, kRequestBytesMax> buffer;
    const ssize_t bytes = recv(fd_, buffer.data(), buffer.size(), 0);
    if (bytes <= 0) return Later(bytes);
    text_.append(buffer.data(), static_cast<size_t>(bytes));
    const bool whole = text_.find("\r\n\r\n") != std::string::npos;
    if (!whole && text_.size() <= kRequestBytesMax) return true;
    text_ = whole ? Respond(options, text_) : Message(Refusal(413), /*with_body=*/true);
    state_ = State::kReply;
    deadline_ms_ = now_ms + timeout_ms_;
    return true;
  }

  bool Write(int64_t now_ms) {
    const ssize_t bytes = send(fd_, text_.data() + sent_, text_.size() - sent_, MSG_NOSIGNAL);
    if (bytes < 0) return Later(bytes);
    sent_ += static_cast<size_t>(bytes);
    if (sent_ < text_.size()) return true;
    text_ = std::string();
    shutdown(fd_, SHUT_WR);
    state_ = State::kEnd;
    deadline_ms_ = now_ms + kEndMs;
    return true;
  }

  bool AwaitEnd() const {
    std::array<char, kRequestBytesMax> rest;
    const ssize_t bytes = recv(fd_, rest.data(), rest.size(), 0);
    return bytes > 0 || Later(bytes);
  }

  const int fd_;
  const int64_t timeout_ms_;
  State state_ = State::kRequest;
  int64_t deadline_ms_;
  std::string text_;  // the request, then the reply
  size_t sent_ = 0;
};

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(HttpServerOptions o) : options(std::move(o)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Listen(const Resolved& resolved);
  void Run();
  bool ClientWaits() const;
  void Accept(int64_t now_ms);
  void Close(std::list<Connection>::iterator which);

  static constexpr size_t kConnectionsMax = 64;
  static constexpr size_t kSpare = 8;

  const HttpServerOptions options;
  int listener = -1;
  int wake = -1;  // an eventfd: the server is to end
  SpareDescriptors spare{kSpare};
  std::list<Connection> connections;  // the oldest first
  std::thread thread;
};

HttpServer::Impl::~Impl() {
  if (thread.joinable()) {
    static_cast<void>(eventfd_write(wake, 1));
    thread.join();
  }
  for (const Connection& connection : connections) close(connection.fd());
  if (wake >= 0) close(wake);
  if (listener >= 0) close(listener);
}

absl::Status HttpServer::Impl::Listen(const Resolved& resolved) {
  const int on = 1;
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener = socket(resolved.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (wake < 0 || listener < 0) return CannotListen(options.listen);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&resolved.address), resolved.length) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    return CannotListen(options.listen);
  }
  return spare.Refill() ? absl::OkStatus() : CannotListen(options.listen);
}

bool HttpServer::Impl::ClientWaits() const {
  pollfd waits{listener, POLLIN, 0};
  return poll(&waits, 1, 0) > 0;
}

void HttpServer::Impl::Accept(int64_t now_ms) {
  // Without a free descriptor accept4 fails even where nobody waits, and would cost a spare one.
  while (ClientWaits()) {
    const int fd = spare.Open(
        [this] { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    if (fd < 0) {
      if (!SpareDescriptors::RanOut() || connections.empty()) return;
      Close(connections.begin());
      continue;
    }
    if (connections.size() == kConnectionsMax) Close(connections.begin());
    connections.emplace_back(fd, now_ms, std::max(1U, options.timeout_ms));
  }
}

void HttpServer::Impl::Close(std::list<Connection>::iterator which) {
  const int fd = which->fd();
  connections.erase(which);
  spare.Close(fd);
}

void HttpServer::Impl::Run() {
  constexpr int64_t kForever = -1;
  constexpr int64_t kRefillMs = 100;
  std::vector<pollfd> polled;
  while (true) {
    const bool refilled = spare.Refill();
    // A client that cannot be accepted would end each wait at once.
    const bool can_accept = !spare.empty() || !connections.empty();
    polled.assign({{wake, POLLIN, 0}, {can_accept ? listener : -1, POLLIN, 0}});
    int64_t first_deadline = refilled ? INT64_MAX : NowMs() + kRefillMs;
    for (const Connection& connection : connections) {
      polled.push_back({connection.fd(), connection.events(), 0});
      first_deadline = std::min(first_deadline, connection.deadline_ms());
    }
    const int64_t wait_ms =
        first_deadline == INT64_MAX ? kForever : std::max<int64_t>(0, first_deadline - NowMs() + 1);
    poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
    if (polled[0].revents != 0) return;
    const int64_t now_ms = NowMs();
    size_t index = 2;
    for (auto it = connections.begin(); it != connections.end(); ++index) {
      const auto connection = it++;
      const bool goes_on = polled[index].revents == 0 || connection->Advance(options, now_ms);
      if (!goes_on || now_ms > connection->deadline_ms()) Close(connection);
    }
    if (polled[1].revents != 0) Accept(now_ms);
  }
}

HttpServer::HttpServer() = default;
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  std::unique_ptr<HttpServer> server(new HttpServer);
  if (options.listen.empty()) return server;
  const absl::StatusOr<Resolved> resolved = Resolve(options.listen);
  if (!resolved.ok()) return resolved.status();
  server->impl_ = std::make_unique<Impl>(std::move(options));
  Impl& impl = *server->impl_;
  if (absl::Status s = impl.Listen(*resolved); !s.ok()) return s;
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(impl.listener, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return CannotListen(impl.options.listen);
  }
  server->address_ = NumericAddress(bound);
  impl.thread = std::thread([&impl] {
    pthread_setname_np(pthread_self(), "histogram-http");
    impl.Run();
  });
  return server;
}

}  // namespace histogram::server
