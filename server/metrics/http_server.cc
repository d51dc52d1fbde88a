#include "server/metrics/http_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

constexpr TimeNs kMillisecond = 1000000;
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
  std::string status = "200 OK";
  std::string body;
  const char* type = kPlain;
};

Answer Refusal(const std::string& status) { return {status, status + "\n"}; }

Answer Route(const HttpServerOptions& options, absl::string_view path) {
  if (path == "/") return {.body = kFrontPage, .type = kHtml};
  if (path == "/metrics") return {.body = options.metrics(), .type = kMetricsType};
  if (path == "/healthz") {
    if (options.live()) return {.body = "ok\n"};
    return {"503 Service Unavailable", "not live: a receiving thread stands still\n"};
  }
  if (path == "/readyz") {
    const std::string reason = options.not_ready();
    if (reason.empty()) return {.body = "ready\n"};
    return {"503 Service Unavailable", absl::StrCat("not ready: ", reason, "\n")};
  }
  return {"404 Not Found", kPaths};
}

std::string Message(const Answer& answer, bool with_body = true) {
  const bool wrong_method = absl::StartsWith(answer.status, "405");
  return absl::StrCat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.type,
                      "\r\nContent-Length: ", answer.body.size(), "\r\n",
                      wrong_method ? "Allow: GET, HEAD\r\n" : "",
                      "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                      with_body ? answer.body : "");
}

// The whole reply to a request of which all headers are there.
std::string Respond(const HttpServerOptions& options, absl::string_view request) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
  if (words.size() != 3 || words[0].empty() || words[1].empty() ||
      !absl::StartsWith(words[2], "HTTP/")) {
    return Message(Refusal("400 Bad Request"));
  }
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
    return Message(Refusal("505 HTTP Version Not Supported"));
  }
  if (words[0] != "GET" && words[0] != "HEAD") {
    return Message({"405 Method Not Allowed", "405 method not allowed; use GET\n"});
  }
  absl::string_view path = words[1];
  if (absl::ConsumePrefix(&path, "http://")) {  // as to a proxy
    path = path.substr(std::min(path.find('/'), path.size()));
    if (path.empty()) path = "/";
  }
  try {
    return Message(Route(options, path.substr(0, path.find('?'))), words[0] == "GET");
  } catch (const std::exception&) {
    return Message({"500 Internal Server Error", "500 internal error\n"}, words[0] == "GET");
  }
}

std::string NumericAddress(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(address.get(), address.length, host.data(), host.size(), port.data(), port.size(),
              NI_NUMERICHOST | NI_NUMERICSERV);
  const bool six = address.get()->sa_family == AF_INET6;
  return absl::StrCat(six ? "[" : "", host.data(), six ? "]:" : ":", port.data());
}

// Whether errno says that there are no descriptors.
bool RanOut() { return errno == EMFILE || errno == ENFILE; }

absl::Status CannotListen(const std::string& listen) {
  return absl::UnavailableError(
      absl::StrCat("cannot bind --metrics-listen ", listen, ": ", strerror(errno)));
}

}  // namespace

// One client: its request comes, then its reply goes, then its end is awaited, since to close with
// bytes unread would take the reply from it.
class HttpServer::Connection {
 public:
  Connection(int fd, const HttpServerOptions& options, TimeNs now)
      : fd_(fd), options_(options), deadline_(now + Timeout()) {}

  int fd() const { return fd_; }
  TimeNs deadline() const { return deadline_; }
  short events() const { return state_ == State::kReply ? POLLOUT : POLLIN; }

  // The socket is ready. False: the connection is over.
  bool Advance(TimeNs now) {
    if (state_ == State::kRequest && !Read(now)) return false;
    if (state_ == State::kReply && !Write(now)) return false;
    return state_ != State::kEnd || AwaitEnd();
  }

 private:
  enum class State : uint8_t { kRequest, kReply, kEnd };
  static constexpr size_t kRequestBytesMax = 16384;
  static constexpr TimeNs kEnd = 1000 * kMillisecond;

  TimeNs Timeout() const { return options_.timeout_ms * kMillisecond; }
  static bool Later(ssize_t result) {
    return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  }

  bool Read(TimeNs now) {
    std::array<char, kRequestBytesMax> buffer;
    const ssize_t bytes = recv(fd_, buffer.data(), buffer.size(), 0);
    if (bytes <= 0) return Later(bytes);
    text_.append(buffer.data(), static_cast<size_t>(bytes));
    const bool whole = text_.find("\r\n\r\n") != std::string::npos;
    if (!whole && text_.size() <= kRequestBytesMax) return true;
    text_ = whole ? Respond(options_, text_) : Message(Refusal("413 Content Too Large"));
    state_ = State::kReply;
    deadline_ = now + Timeout();
    return true;
  }

  bool Write(TimeNs now) {
    const ssize_t bytes = send(fd_, text_.data() + sent_, text_.size() - sent_, MSG_NOSIGNAL);
    if (bytes < 0) return Later(bytes);
    sent_ += static_cast<size_t>(bytes);
    if (sent_ < text_.size()) return true;
    text_ = std::string();
    shutdown(fd_, SHUT_WR);
    state_ = State::kEnd;
    deadline_ = now + kEnd;
    return true;
  }

  bool AwaitEnd() const {
    std::array<char, kRequestBytesMax> rest;
    const ssize_t bytes = recv(fd_, rest.data(), rest.size(), 0);
    return bytes > 0 || Later(bytes);
  }

  const int fd_;
  const HttpServerOptions& options_;
  State state_ = State::kRequest;
  TimeNs deadline_;
  std::string text_;  // the request, then the reply
  size_t sent_ = 0;
};

HttpServer::HttpServer(HttpServerOptions options) : options_(std::move(options)) {}

HttpServer::~HttpServer() {
  if (thread_.joinable()) {
    static_cast<void>(eventfd_write(wake_, 1));
    thread_.join();
  }
  for (const Connection& connection : connections_) close(connection.fd());
  for (const int fd : spare_) close(fd);
  if (wake_ >= 0) close(wake_);
  if (listener_ >= 0) close(listener_);
}

absl::Status HttpServer::Listen() {
  const absl::StatusOr<Address> address = ParseAddress(options_.listen);
  if (!address.ok() || address->is_unix) {
    return Invalid("the metrics address must be HOST:PORT, not '", options_.listen, "'");
  }
  const absl::StatusOr<std::vector<SocketAddress>> places = Resolve(*address);
  if (!places.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot resolve the metrics address ",
                                               options_.listen, ": ", places.status().message()));
  }
  SocketAddress place = places->front();
  const int on = 1;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listener_ = socket(place.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (wake_ < 0 || listener_ < 0 ||
      setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener_, place.get(), place.length) != 0 || listen(listener_, SOMAXCONN) != 0 ||
      !Refill() ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&place.storage), &place.length) != 0) {
    return CannotListen(options_.listen);
  }
  address_ = NumericAddress(place);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "histogram-http");
    Run();
  });
  return absl::OkStatus();
}

bool HttpServer::ClientWaits() const {
  pollfd waits{listener_, POLLIN, 0};
  return poll(&waits, 1, 0) > 0;
}

int HttpServer::AcceptOne() {
  const auto accept = [this] {
    return accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  };
  int fd = accept();
  // Another thread may take the one that is freed for it: so it tries again.
  while (fd < 0 && RanOut() && !spare_.empty()) {
    close(spare_.back());
    spare_.pop_back();
    fd = accept();
  }
  return fd;
}

void HttpServer::Accept(TimeNs now) {
  // Without a free descriptor accept4 fails even where no client waits, and each failure costs a
  // reserve descriptor.
  while (ClientWaits()) {
    const int fd = AcceptOne();
    if (fd < 0) {
      if (!RanOut() || connections_.empty()) return;
      Close(connections_.begin());
      continue;
    }
    if (connections_.size() == kConnectionsMax) Close(connections_.begin());
    connections_.emplace_back(fd, options_, now);
  }
}

void HttpServer::Close(std::list<Connection>::iterator which) {
  const int fd = which->fd();
  connections_.erase(which);
  // dup3 replaces the descriptor atomically: no other thread can take it in between.
  if (spare_.size() < kSpareMax && dup3(wake_, fd, O_CLOEXEC) == fd) {
    spare_.push_back(fd);
  } else {
    close(fd);
  }
}

bool HttpServer::Refill() {
  while (spare_.size() < kSpareMax) {
    const int fd = fcntl(wake_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    spare_.push_back(fd);
  }
  return true;
}

void HttpServer::Run() {
  constexpr TimeNs kRefill = 100 * kMillisecond;
  const Clock& clock = Clock::Monotonic();
  std::vector<pollfd> polled;
  while (true) {
    const bool refilled = Refill();
    // A client that cannot be accepted would end each wait at once.
    const bool can_accept = !spare_.empty() || !connections_.empty();
    polled.assign({{wake_, POLLIN, 0}, {can_accept ? listener_ : -1, POLLIN, 0}});
    TimeNs wake_at = refilled ? kNever : clock.Now() + kRefill;
    for (const Connection& connection : connections_) {
      polled.push_back({connection.fd(), connection.events(), 0});
      wake_at = std::min(wake_at, connection.deadline());
    }
    const TimeNs wait_ms = std::max<TimeNs>(0, (wake_at - clock.Now()) / kMillisecond + 1);
    poll(polled.data(), polled.size(), static_cast<int>(std::min<TimeNs>(wait_ms, INT_MAX)));
    if (polled[0].revents != 0) return;
    const TimeNs now = clock.Now();
    size_t index = 2;
    for (auto it = connections_.begin(); it != connections_.end(); ++index) {
      const auto connection = it++;
      const bool goes_on = polled[index].revents == 0 || connection->Advance(now);
      if (!goes_on || now > connection->deadline()) Close(connection);
    }
    if (polled[1].revents != 0) Accept(now);
  }
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options)));
  if (server->options_.listen.empty()) return server;
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace histogram::server
