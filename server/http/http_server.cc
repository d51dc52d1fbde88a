#include "server/http/http_server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/http/connection.h"

namespace histogram::server {
namespace {

constexpr TimeNs kUnreadMax = 2 * kSecond;  // of a reply, where there is no room
constexpr TimeNs kLookInterval = kSecond / 10;
// A flood of new clients must not keep the thread from those that are connected: it accepts no more
// than this before it turns to them.
constexpr int kAcceptedAtOnce = 64;

using Connections = std::list<std::shared_ptr<HttpConnection>>;

// The host whose connections weigh most together.
template <typename Weight>
std::string HostWithMost(const Connections& connections, Weight weight) {
  std::map<std::string, uint64_t> sums;
  for (const auto& each : connections) sums[each->host()] += weight(*each);
  const auto most = std::max_element(
      sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == sums.end() ? "" : most->first;
}

absl::Status CannotBind(const std::string& flag, const std::string& listen, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot bind ", flag, " ", listen, ": ", why));
}

}  // namespace

absl::Status HttpServer::Begin() {
  const std::string &flag = options_.flag, &listen = options_.listen;
  if (!spare_.Refill()) return CannotBind(flag, listen, strerror(errno));
  const absl::StatusOr<Address> address = ParseAddress(listen);
  if (!address.ok() || address->is_unix) {
    return Invalid(flag, " must be HOST:PORT, not '", listen, "'");
  }
  auto places = Resolve(*address);
  if (!places.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", flag, " ", listen, ": ", places.status().message()));
  }
  const auto sockets = Listen(*std::move(places));
  if (!sockets.ok()) return CannotBind(flag, listen, sockets.status().message());
  address_ = NumericAddress(sockets->front().place);
  for (const ListeningSocket& one : *sockets) {
    const bool six = one.place.get()->sa_family == AF_INET6;
    listeners_.emplace_back(io_, six ? tcp::v6() : tcp::v4(), one.fd);
  }
  for (size_t i = 0; i < listeners_.size(); ++i) AwaitClients(i);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), options_.thread_name);
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception&) {  // of one connection, which times out
      }
    }
  });
  return absl::OkStatus();
}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    listeners_.clear();
    while (!connections_.empty()) connections_.front()->Close();
    timer_.cancel();
    work_.reset();
  });
  thread_.join();
}

void HttpServer::Drain(TimeNs deadline) {
  asio::post(io_, [this, deadline] {
    // Clients that the system has let in get an answer, not a reset.
    for (size_t i = 0; i < listeners_.size(); ++i) {
      for (int n = 0; n < SOMAXCONN && Accept(i); n += kAcceptedAtOnce) {
      }
    }
    listeners_.clear();
    draining_ = true;
    drained_until_ = deadline;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto connection = *it++;
      if (connection->idle()) connection->End(kShutsDown);
    }
    Look();
  });
}

TimeNs HttpServer::StoodStillNs() {
  const TimeNs now = Clock::Monotonic().Now();
  TimeNs asked_at = 0;
  if (!asked_at_.compare_exchange_strong(asked_at, now)) return now - asked_at;
  asio::post(io_, [this] { asked_at_ = 0; });
  return 0;
}

void HttpServer::AwaitClients(size_t listener) {
  listeners_[listener].async_wait(tcp::acceptor::wait_read, [this, listener](error_code error) {
    if (!error && listener < listeners_.size()) Accept(listener);
  });
}

bool HttpServer::Accept(size_t listener) {
  bool more = true;
  for (int i = 0; more && i < kAcceptedAtOnce; ++i) {
    static_cast<void>(spare_.Refill());
    SocketAddress peer;
    const int fd = spare_.Accept(listeners_[listener].native_handle(), peer);
    if (fd < 0) {
      more = RanOutOfDescriptors();
      if (!more || CloseOne()) continue;
      paused_.push_back(listener);  // to wait for clients would be to come back at once
      AwaitLook();
      return false;
    }
    if (connections_.size() >= options_.connections_max && !CloseOne()) {
      spare_.Close(fd);
      continue;
    }
    connections_.push_back(std::make_shared<HttpConnection>(*this, fd, peer));
    const std::shared_ptr<HttpConnection> connection = connections_.back();
    connection->ReadHead();
    if (connections_.size() == 1) AwaitLook();
  }
  AwaitClients(listener);
  return more;
}

bool HttpServer::CloseOne() {
  using State = HttpConnection::State;
  const std::string most = HostWithMost(
      connections_, [](const HttpConnection& each) { return each.state() != State::kAnswering; });
  for (const State state : {State::kEnd, State::kHead, State::kBody, State::kReply}) {
    for (const auto& each : connections_) {
      if (each->state() != state || each->host() != most) continue;
      each->Close();
      return true;
    }
  }
  return false;
}

bool HttpServer::MakeRoom(const HttpConnection& wants) {
  using State = HttpConnection::State;
  const std::string most =
      HostWithMost(connections_, [](const HttpConnection& each) { return each.held_bytes(); });
  const TimeNs unread_since = Clock::Monotonic().Now() - kUnreadMax;
  for (const auto& each : connections_) {
    if (each->host() != most || each.get() == &wants || each->held_bytes() == 0) continue;
    const bool receives = each->state() == State::kBody && each->body_bytes() > 0;
    const bool unread = each->state() == State::kReply && each->replied_at() < unread_since;
    if (!receives && !unread) continue;
    const auto connection = each;
    if (receives) connection->End(kNoRoom);
    receives ? connection->LetGo() : connection->Close();
    return true;
  }
  return false;
}

void HttpServer::Remove(HttpConnection& connection, int fd) {
  if (fd >= 0) spare_.Close(fd);
  connections_.remove_if([&](const auto& each) { return each.get() == &connection; });
}

void HttpServer::AwaitLook() {
  timer_.expires_after(std::chrono::nanoseconds(kLookInterval));
  timer_.async_wait([this](error_code error) {
    if (!error) Look();
  });
}

void HttpServer::Look() {
  const TimeNs now = Clock::Monotonic().Now();
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto connection = *it++;
    if (connection->receives() && draining_ && now > drained_until_) {
      connection->End(kShutsDown);
    } else if (now > connection->deadline()) {
      connection->receives() ? connection->End(kTimedOut) : connection->Close();
    }
  }
  for (const size_t listener : std::exchange(paused_, {})) {
    if (listener < listeners_.size()) AwaitClients(listener);
  }
  constexpr TimeNs kLeftOver = 2 * kEndMax;  // for the refusals to be read
  const bool late = draining_ && now > drained_until_ + kLeftOver;
  if (draining_ && !drained_.HasBeenNotified() && (connections_.empty() || late)) {
    drained_.Notify();
  }
  if (!spare_.Refill() || !connections_.empty()) AwaitLook();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    HttpServerOptions options, std::unique_ptr<HttpHandler> handler) {
  const std::string flag = options.flag, listen = options.listen;
  try {
    std::unique_ptr<HttpServer> server(new HttpServer(std::move(options), std::move(handler)));
    if (absl::Status status = server->Begin(); !status.ok()) return status;
    return server;
  } catch (const boost::system::system_error& error) {  // such as: no descriptors
    return CannotBind(flag, listen, error.code().message());
  }
}

}  // namespace histogram::server
