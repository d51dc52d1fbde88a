#include "server/http/http_server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "server/http/sockets.h"

namespace histogram::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::beast::error_code;

constexpr TimeNs kMillisecond = 1000000;
constexpr TimeNs kSecond = 1000 * kMillisecond;
constexpr TimeNs kEndMax = kSecond;  // for a client to read the last reply
constexpr TimeNs kLookInterval = 100 * kMillisecond;
constexpr size_t kReadBytes = size_t{32} << 10;
constexpr size_t kFirstPieceBytes = size_t{16} << 10;
constexpr size_t kPieceBytesMax = size_t{1} << 20;

TimeNs Now() { return Clock::Monotonic().Now(); }

bool IsHttpError(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

}  // namespace

bool HttpHold::Take(uint64_t bytes) {
  const uint64_t before = memory_->bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before + bytes > memory_->bytes_max_) {
    memory_->bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  bytes_ += bytes;
  return true;
}

void HttpHold::LetGo() {
  memory_->bytes_.fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
}

absl::string_view HttpRequest::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

size_t HttpRequest::Count(absl::string_view name) const {
  return static_cast<size_t>(std::count_if(
      headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; }));
}

unsigned StatusOf(HttpFault fault) {
  switch (fault) {
    case HttpFault::kMalformed:
      return 400;
    case HttpFault::kTimedOut:
      return 408;
    case HttpFault::kBodyTooLarge:
      return 413;
    case HttpFault::kExpectation:
      return 417;
    case HttpFault::kHeadersTooLarge:
      return 431;
    case HttpFault::kInternal:
      return 500;
    case HttpFault::kNoRoom:
    case HttpFault::kDraining:
      return 503;
    case HttpFault::kVersion:
      return 505;
  }
  return 500;
}

namespace {

class Connection;

class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, HttpHandler& handler)
      : options_(std::move(options)), handler_(handler) {
    if (options_.memory == nullptr) options_.memory = std::make_shared<HttpMemory>(0);
  }
  ~Server() override;

  absl::Status Begin();
  const std::string& address() const override { return address_; }
  void Drain(TimeNs deadline) override;
  void AwaitDrained() override { drained_.WaitForNotification(); }

  // --- For connections, on the server's thread.
  const HttpServerOptions& options() const { return options_; }
  HttpHandler& handler() { return handler_; }
  asio::io_context& io() { return io_; }
  bool draining() const { return draining_; }
  void Remove(Connection& connection, int fd);
  // Drops a body that is half received, so that `wants` has room for its own: the oldest of the
  // client that has most bytes in such bodies. False: there is none but that of `wants`.
  bool MakeRoom(const Connection& wants);

 private:
  void AwaitClients(size_t listener);
  void Accept(size_t listener);
  // Closes the connection that matters least. False: all are being answered.
  bool CloseOne();
  // Ends what has taken too long.
  void Look();
  void AwaitLook();

  HttpServerOptions options_;
  HttpHandler& handler_;
  std::string address_;
  SpareDescriptors spare_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer timer_{io_};
  std::vector<tcp::acceptor> listeners_;
  std::list<std::shared_ptr<Connection>> connections_;  // the oldest first
  bool draining_ = false;
  std::vector<size_t> paused_;  // listeners that wait for a descriptor
  TimeNs drained_until_ = kNever;
  absl::Notification drained_;
  std::thread thread_;
};

// A client. Its requests come one after another: headers, body, then the reply goes. At last its
// end is awaited, since to close with bytes unread would take the reply from it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class State : uint8_t { kHead, kBody, kAnswering, kReply, kEnd, kClosed };

  Connection(Server& server, int fd, const SocketAddress& peer)
      : server_(server), socket_(server.io()), peer_(NumericAddress(peer)) {
    error_code ignored;
    socket_.assign(peer.get()->sa_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, ignored);
  }

  State state() const { return state_; }
  TimeNs deadline() const { return deadline_; }
  bool idle() const { return state_ == State::kHead && buffer_.size() == 0; }
  uint64_t body_bytes() const { return request_.body == nullptr ? 0 : request_.body->bytes; }
  std::string host() const { return peer_.substr(0, peer_.rfind(':')); }

  void ReadHead();
  void OnReply(HttpReply reply, std::shared_ptr<HttpHold> hold);
  // Refuses a request that is being received.
  void End(HttpFault fault) {
    if (idle()) return Close();
    fault_ = fault;
    error_code ignored;
    socket_.cancel(ignored);
  }
  void Close() {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    request_.body.reset();
    hold_.reset();
    error_code error;
    const int fd = socket_.release(error);
    server_.Remove(*this, error ? -1 : fd);
  }

 private:
  using Parser = http::request_parser<http::buffer_body>;

  // Runs `next` with the outcome of an operation, unless the connection is closed or the request
  // was ended.
  template <typename Next>
  auto Then(Next next) {
    return [self = shared_from_this(), next = std::move(next)](const error_code& error, size_t n) {
      if (self->state_ == State::kClosed) return;
      if (self->fault_.has_value()) return self->Refuse(*std::exchange(self->fault_, std::nullopt));
      next(*self, error, n);
    };
  }
  // The time for so many bytes.
  TimeNs TimeFor(uint64_t bytes) const {
    const HttpServerOptions& options = server_.options();
    const uint64_t rate = options.bytes_per_second_min;
    return options.timeout_ms * kMillisecond +
           (rate == 0 ? 0 : static_cast<TimeNs>(bytes / rate) * kSecond);
  }
  void OnHead(const error_code& error);
  // Sets request_ from the parsed headers. False: they contradict each other.
  bool TakeHead();
  void ReadBody();
  void OnBody(const error_code& error);
  // A piece of the body with free space. Null where there is no room.
  HttpBody::Piece* Room();
  void Answer();
  void Refuse(HttpFault fault, uint64_t limit = 0) {
    Send(server_.handler().Refuse(fault, request_, limit), /*keep=*/false);
  }
  void Send(HttpReply reply, bool keep);
  void AwaitEnd();

  Server& server_;
  tcp::socket socket_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_{kReadBytes};
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::shared_ptr<HttpHold> hold_;  // for the reply that is written
  HttpRequest request_;
  State state_ = State::kHead;
  TimeNs begun_at_ = 0;  // the body
  TimeNs deadline_ = kNever;
  uint64_t body_bytes_max_ = 0;
  std::optional<HttpFault> fault_;
};

class Exchange final : public HttpExchange {
 public:
  Exchange(Server& server, std::weak_ptr<Connection> connection)
      : server_(server),
        work_(server.io().get_executor()),
        connection_(std::move(connection)),
        hold_(std::make_shared<HttpHold>(server.options().memory)) {}

  bool Hold(uint64_t bytes) override {
    if (bytes > hold_->memory().bytes_max()) return false;
    while (!hold_->Take(bytes)) {
      const auto connection = connection_.lock();
      if (connection == nullptr || !server_.MakeRoom(*connection)) return false;
    }
    return true;
  }
  void Reply(HttpReply reply) override {
    asio::dispatch(work_.get_executor(), [to = std::move(connection_), reply = std::move(reply),
                                          hold = std::move(hold_)]() mutable {
      if (const auto connection = to.lock()) connection->OnReply(std::move(reply), std::move(hold));
    });
  }

 private:
  Server& server_;
  // The server ends no sooner than this.
  const asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::weak_ptr<Connection> connection_;
  std::shared_ptr<HttpHold> hold_;
};

void Connection::ReadHead() {
  if (server_.draining() && buffer_.size() == 0) return Close();
  state_ = State::kHead;
  deadline_ = Now() + TimeFor(0);
  request_ = HttpRequest();
  request_.peer = peer_;
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  parser_.emplace();
  parser_->header_limit(server_.options().header_bytes_max);
  parser_->body_limit(UINT64_MAX);  // checked here, for a proper answer
  http::async_read_header(
      socket_, buffer_, *parser_,
      Then([](Connection& self, const error_code& error, size_t) { self.OnHead(error); }));
}

void Connection::OnHead(const error_code& error) {
  request_.arrived_at = Now();
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(HttpFault::kHeadersTooLarge, server_.options().header_bytes_max);
  }
  if (error == http::error::bad_version) return Refuse(HttpFault::kVersion);
  if (error == http::error::end_of_stream || error == http::error::partial_message) return Close();
  if (error && IsHttpError(error)) return Refuse(HttpFault::kMalformed);
  if (error) return Close();
  if (!TakeHead()) return Refuse(HttpFault::kMalformed);
  if (server_.draining()) return Refuse(HttpFault::kDraining);
  std::optional<HttpReply> refusal = server_.handler().Check(request_, body_bytes_max_);
  if (refusal.has_value()) return Send(*std::move(refusal), parser_->is_done());
  request_.body = std::make_shared<HttpBody>(server_.options().memory);
  const boost::optional<uint64_t> length = parser_->content_length();
  if (length.value_or(0) > body_bytes_max_) {
    return Refuse(HttpFault::kBodyTooLarge, body_bytes_max_);
  }
  begun_at_ = request_.arrived_at;
  state_ = State::kBody;
  const absl::string_view expects = request_.Header("expect");
  if (!expects.empty() && !absl::EqualsIgnoreCase(expects, "100-continue")) {
    return Refuse(HttpFault::kExpectation);
  }
  if (expects.empty() || !request_.http_1_1 || parser_->is_done() || buffer_.size() > 0) {
    return ReadBody();
  }
  deadline_ = begun_at_ + TimeFor(0);
  static constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                    Then([](Connection& self, const error_code& failed, size_t) {
                      failed ? self.Close() : self.ReadBody();
                    }));
}

bool Connection::TakeHead() {
  const auto& head = parser_->get();
  request_.http_1_1 = head.version() == 11;
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  request_.method = text(head.method_string());
  for (const auto& field : head) {
    request_.headers.emplace_back(absl::AsciiStrToLower(text(field.name_string())),
                                  text(field.value()));
  }
  std::string target = text(head.target());
  if (absl::StartsWith(target, "http://")) {  // as to a proxy: then the target's host counts
    const size_t path = std::min(target.find_first_of("/?", 7), target.size());
    const std::string host = target.substr(7, path - 7);
    for (auto& [name, value] : request_.headers) {
      if (name == "host") value = host;
    }
    target = path < target.size() ? target.substr(path) : "/";
    if (target[0] == '?') target.insert(0, "/");
  }
  const size_t question = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, question);
  request_.query = target.substr(std::min(question + 1, target.size()));
  // What two servers may read in different ways is refused: bytes of a body would be taken for the
  // next request.
  const size_t lengths = request_.Count("content-length");
  const size_t codings = request_.Count("transfer-encoding");
  request_.has_body = lengths + codings > 0;
  if (request_.Count("host") > 1 || lengths + codings > 1) return false;
  if (lengths == 1 && request_.Header("content-length").find_first_not_of("0123456789") !=
                          absl::string_view::npos) {
    return false;  // Beast takes "1, 1"
  }
  return codings == 0 || (request_.http_1_1 &&
                          absl::EqualsIgnoreCase(request_.Header("transfer-encoding"), "chunked"));
}

HttpBody::Piece* Connection::Room() {
  HttpBody& body = *request_.body;
  if (!body.pieces.empty() && body.pieces.back().size < body.pieces.back().capacity) {
    return &body.pieces.back();
  }
  // As much again as there is, so that a body takes little more than what has come of it.
  uint64_t capacity =
      std::clamp<uint64_t>(body.bytes / 4096 * 4096, kFirstPieceBytes, kPieceBytesMax);
  if (parser_->content_length().has_value()) {
    capacity = std::min<uint64_t>(capacity, *parser_->content_length() - body.bytes);
  }
  while (!body.hold.Take(capacity)) {
    if (!server_.MakeRoom(*this)) return nullptr;
  }
  body.pieces.push_back(
      {std::unique_ptr<uint8_t[]>(new uint8_t[capacity]), 0, static_cast<size_t>(capacity)});
  return &body.pieces.back();
}

void Connection::ReadBody() {
  if (parser_->is_done()) return Answer();
  HttpBody::Piece* const piece = Room();
  if (piece == nullptr) return Refuse(HttpFault::kNoRoom);
  auto& body = parser_->get().body();
  body.data = piece->data.get() + piece->size;
  body.size = piece->capacity - piece->size;
  deadline_ = begun_at_ + TimeFor(request_.body->bytes);
  http::async_read_some(
      socket_, buffer_, *parser_,
      Then([](Connection& self, const error_code& error, size_t) { self.OnBody(error); }));
}

void Connection::OnBody(const error_code& error) {
  if (error && error != http::error::need_buffer) {
    return IsHttpError(error) && error != http::error::end_of_stream &&
                   error != http::error::partial_message
               ? Refuse(HttpFault::kMalformed)
               : Close();
  }
  HttpBody& body = *request_.body;
  HttpBody::Piece& piece = body.pieces.back();
  const size_t before = piece.size;
  piece.size = piece.capacity - parser_->get().body().size;
  body.bytes += piece.size - before;
  if (body.bytes > body_bytes_max_) return Refuse(HttpFault::kBodyTooLarge, body_bytes_max_);
  ReadBody();
}

void Connection::Answer() {
  state_ = State::kAnswering;
  deadline_ = kNever;
  const auto exchange = std::make_shared<Exchange>(server_, weak_from_this());
  exchange->request = std::move(request_);
  request_ = HttpRequest();
  request_.method = exchange->request.method;
  request_.peer = peer_;
  try {
    server_.handler().Answer(exchange);
  } catch (const std::exception&) {
    if (state_ == State::kAnswering) Refuse(HttpFault::kInternal);
  }
}

void Connection::OnReply(HttpReply reply, std::shared_ptr<HttpHold> hold) {
  if (state_ != State::kAnswering) return;
  hold_ = std::move(hold);
  Send(std::move(reply), /*keep=*/true);
}

void Connection::Send(HttpReply reply, bool keep) {
  keep = keep && server_.options().keep_alive && !server_.draining() && parser_->keep_alive();
  state_ = State::kReply;
  request_.body.reset();
  deadline_ = Now() + TimeFor(reply.body.size());
  response_.emplace();
  response_->result(reply.status);
  response_->version(request_.http_1_1 ? 11 : 10);
  response_->set(http::field::content_type, reply.type);
  response_->set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : reply.headers) response_->set(name, value);
  response_->content_length(reply.body.size());
  response_->keep_alive(keep);
  if (!keep) response_->set(http::field::connection, "close");
  const bool has_body = request_.method != "HEAD" && reply.status != 204;
  if (has_body) response_->body() = std::move(reply.body);
  if (reply.status == 204) response_->content_length(boost::none);
  http::async_write(socket_, *response_,
                    Then([keep](Connection& self, const error_code& error, size_t) {
                      self.response_.reset();
                      self.hold_.reset();
                      if (error) return self.Close();
                      if (keep) return self.ReadHead();
                      error_code ignored;
                      self.socket_.shutdown(tcp::socket::shutdown_send, ignored);
                      self.state_ = State::kEnd;
                      self.deadline_ = Now() + kEndMax;
                      self.buffer_.consume(self.buffer_.size());
                      self.AwaitEnd();
                    }));
}

void Connection::AwaitEnd() {
  socket_.async_read_some(buffer_.prepare(kReadBytes / 2),
                          Then([](Connection& self, const error_code& error, size_t) {
                            error ? self.Close() : self.AwaitEnd();
                          }));
}

absl::Status Server::Begin() {
  if (!spare_.Refill()) return CannotBind(options_.flag, options_.listen, strerror(errno));
  const auto sockets = Listen(options_.listen, options_.flag);
  if (!sockets.ok()) return sockets.status();
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

Server::~Server() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    listeners_.clear();
    while (!connections_.empty()) connections_.front()->Close();
    timer_.cancel();
    work_.reset();
  });
  thread_.join();
}

void Server::Drain(TimeNs deadline) {
  asio::post(io_, [this, deadline] {
    listeners_.clear();
    draining_ = true;
    drained_until_ = deadline;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto connection = *it++;
      if (connection->idle()) connection->Close();
    }
    Look();
  });
}

void Server::AwaitClients(size_t listener) {
  listeners_[listener].async_wait(tcp::acceptor::wait_read, [this, listener](error_code error) {
    if (!error && listener < listeners_.size()) Accept(listener);
  });
}

void Server::Accept(size_t listener) {
  // So many at a time, so that a flood does not keep the thread from those who are here.
  for (int i = 0; i < 64; ++i) {
    static_cast<void>(spare_.Refill());
    SocketAddress peer;
    const int fd = spare_.Accept(listeners_[listener].native_handle(), peer);
    if (fd < 0) {
      if (!RanOutOfDescriptors()) break;
      if (CloseOne()) continue;
      paused_.push_back(listener);  // to wait for clients would be to come back at once
      return AwaitLook();
    }
    if (connections_.size() >= options_.connections_max && !CloseOne()) {
      spare_.Close(fd);
      continue;
    }
    connections_.push_back(std::make_shared<Connection>(*this, fd, peer));
    const std::shared_ptr<Connection> connection = connections_.back();
    connection->ReadHead();
    if (connections_.size() == 1) AwaitLook();
  }
  AwaitClients(listener);
}

bool Server::CloseOne() {
  using State = Connection::State;
  for (const State state : {State::kEnd, State::kHead, State::kBody, State::kReply}) {
    for (const auto& connection : connections_) {
      if (connection->state() != state) continue;
      connection->Close();
      return true;
    }
  }
  return false;
}

bool Server::MakeRoom(const Connection& wants) {
  std::map<std::string, uint64_t> held;
  for (const auto& each : connections_) {
    if (each->state() == Connection::State::kBody) held[each->host()] += each->body_bytes();
  }
  const auto most = std::max_element(
      held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == held.end()) return false;
  for (const auto& each : connections_) {
    if (each->state() != Connection::State::kBody || each->host() != most->first) continue;
    if (each->body_bytes() == 0 || each.get() == &wants) continue;
    each->Close();
    return true;
  }
  return false;
}

void Server::Remove(Connection& connection, int fd) {
  if (fd >= 0) spare_.Close(fd);
  connections_.remove_if([&](const auto& each) { return each.get() == &connection; });
}

void Server::AwaitLook() {
  timer_.expires_after(std::chrono::nanoseconds(kLookInterval));
  timer_.async_wait([this](error_code error) {
    if (!error) Look();
  });
}

void Server::Look() {
  using State = Connection::State;
  const TimeNs now = Now();
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto connection = *it++;
    const bool receives =
        connection->state() == State::kHead || connection->state() == State::kBody;
    if (receives && draining_ && now > drained_until_) {
      connection->End(HttpFault::kDraining);
    } else if (now > connection->deadline()) {
      receives ? connection->End(HttpFault::kTimedOut) : connection->Close();
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

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                              HttpHandler& handler) {
  const std::string flag = options.flag, listen = options.listen;
  try {
    auto server = std::make_unique<Server>(std::move(options), handler);
    if (absl::Status status = server->Begin(); !status.ok()) return status;
    return server;
  } catch (const boost::system::system_error& error) {  // such as: no descriptors
    return CannotBind(flag, listen, error.code().message());
  }
}

}  // namespace histogram::server
