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
constexpr TimeNs kStallMax = 30 * kSecond;      // between two reads of a body
constexpr size_t kHeadBytes = size_t{4} << 10;  // that most headers take
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kPieceBytesMax = size_t{1} << 20;

using Code = absl::StatusCode;
constexpr HttpFault kMalformed = {400, Code::kInvalidArgument, "MALFORMED_MESSAGE", "",
                                  "the request is no HTTP, or its headers contradict each other"};
constexpr HttpFault kTimedOut = {408, Code::kDeadlineExceeded, "REQUEST_TIMEOUT", "",
                                 "the request came too slowly"};
constexpr HttpFault kBodyTooLarge = {413, Code::kResourceExhausted, "PAYLOAD_TOO_LARGE", "body",
                                     "body: more bytes than the limit of "};
constexpr HttpFault kExpectation = {417, Code::kInvalidArgument, "EXPECTATION_FAILED", "Expect",
                                    "Expect: must be 100-continue"};
constexpr HttpFault kHeadersTooLarge = {431, Code::kResourceExhausted, "HEADERS_TOO_LARGE",
                                        "headers", "headers: more bytes than the limit of "};
constexpr HttpFault kInternal = {500, Code::kInternal, "INTERNAL", "", "internal error"};
constexpr HttpFault kNoRoom = {503, Code::kResourceExhausted, "QUEUE_FULL", "",
                               "bodies and replies take all the memory that they may"};
constexpr HttpFault kDraining = {503, Code::kUnavailable, "DRAINING", "", "the server shuts down"};
constexpr HttpFault kVersion = {505, Code::kUnimplemented, "VERSION_NOT_SUPPORTED", "",
                                "the port speaks HTTP/1.1"};

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

// A client, and its request under way: they come one after another. Headers, body, then the reply
// goes. At last the client's end is awaited, since to close with bytes unread would take the reply
// from it. Handlers may keep it when it is closed.
class Connection final : public HttpExchange {
 public:
  enum class State : uint8_t { kHead, kBody, kAnswering, kReply, kEnd, kClosed };

  Connection(Server& server, int fd, const SocketAddress& peer)
      : server_(server),
        work_(server.io().get_executor()),
        socket_(server.io()),
        timer_(server.io()),
        peer_(NumericAddress(peer)) {
    error_code ignored;
    socket_.assign(peer.get()->sa_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, ignored);
  }

  State state() const { return state_; }
  TimeNs deadline() const { return deadline_; }
  bool idle() const { return state_ == State::kHead && buffer_.size() == 0; }
  // Whether the request is not yet whole.
  bool receives() const {
    return state_ == State::kHead || state_ == State::kBody ||
           (state_ == State::kAnswering && !whole);
  }
  uint64_t body_bytes() const { return body == nullptr ? 0 : body->bytes; }
  std::string host() const { return peer_.substr(0, peer_.rfind(':')); }

  void ReadHead();
  // Refuses a request that is being received.
  void End(const HttpFault& fault) {
    idle() ? Close() : OnReply(server_.handler().Refuse(fault, request));
  }
  void Close() {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    body.reset();
    hold_.reset();
    next_ = nullptr;
    timer_.cancel();
    error_code error;
    const int fd = socket_.release(error);
    server_.Remove(*this, error ? -1 : fd);
  }

  bool Hold(uint64_t bytes) override;
  void ReadOn(std::function<void()> next) override;
  void Run(std::function<void()> run) override {
    asio::post(server_.io(), [self = Self(), run = std::move(run)] {
      if (self->state_ == State::kBody || self->state_ == State::kAnswering) run();
    });
  }
  void RunAfter(TimeNs time, std::function<void()> run) override {
    timer_.expires_after(std::chrono::nanoseconds(time));
    timer_.async_wait([self = Self(), run = std::move(run)](const error_code& error) {
      if (!error && self->state_ == State::kAnswering) run();
    });
  }
  void Reply(HttpReply reply) override {
    asio::dispatch(server_.io(), [self = Self(), reply = std::move(reply)]() mutable {
      self->OnReply(std::move(reply));
    });
  }

 private:
  using Parser = http::request_parser<http::buffer_body>;

  // Runs `next` with the outcome of an operation, unless the connection is closed, or a reply goes
  // instead.
  template <typename Next>
  auto Then(Next next) {
    return [self = Self(), next = std::move(next)](const error_code& error, size_t n) {
      if (self->state_ == State::kClosed) return;
      if (self->instead_.has_value()) {
        return self->Send(*std::exchange(self->instead_, std::nullopt), /*keep=*/false);
      }
      next(*self, error, n);
    };
  }
  std::shared_ptr<Connection> Self() {
    return std::static_pointer_cast<Connection>(shared_from_this());
  }
  // The time for so many bytes.
  TimeNs TimeFor(uint64_t bytes) const {
    const HttpServerOptions& options = server_.options();
    const uint64_t rate = options.bytes_per_second_min;
    return options.timeout_ms * kMillisecond +
           (rate == 0 ? 0 : static_cast<TimeNs>(bytes / rate) * kSecond);
  }
  void OnHead(const error_code& error);
  // Sets the request from the parsed headers. False: they contradict each other.
  bool TakeHead();
  // Whether all of the body is there.
  bool IsWhole() const { return left_.has_value() ? *left_ == 0 : parser_->is_done(); }
  void ReadBody();
  void OnBody(const error_code& error, size_t bytes);
  // A piece of the body with free space. Null where there is no room.
  HttpBody::Piece* Room();
  // Passes on what came of the body.
  void Deliver();
  void OnReply(HttpReply reply);
  void Refuse(HttpFault fault, uint64_t limit = 0) {
    fault.limit = limit;
    Send(server_.handler().Refuse(fault, request), /*keep=*/false);
  }
  void Send(HttpReply reply, bool keep);
  void AwaitEnd();

  Server& server_;
  // The server ends no sooner than this.
  const asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_{kReadBytes};
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<HttpHold> hold_;      // room for the reply
  std::function<void()> next_;        // waits for more of the body
  std::optional<HttpReply> instead_;  // of what the request is to get
  HttpIntake intake_;
  std::optional<uint64_t> left_;  // of the body; nothing: it comes in chunks, or there is none
  uint64_t received_ = 0;         // of the body
  State state_ = State::kHead;
  TimeNs begun_at_ = 0;   // the body, without the time in which nothing was to be received
  TimeNs paused_at_ = 0;  // the last time that began
  TimeNs deadline_ = kNever;
};

bool Connection::Hold(uint64_t bytes) {
  if (!hold_.has_value()) hold_.emplace(server_.options().memory);
  if (bytes > hold_->memory().bytes_max()) return false;
  while (!hold_->Take(bytes)) {
    if (!server_.MakeRoom(*this)) return false;
  }
  return true;
}

void Connection::ReadHead() {
  if (server_.draining() && buffer_.size() == 0) return Close();
  state_ = State::kHead;
  deadline_ = Now() + TimeFor(0);
  request = {};
  request.peer = peer_;
  whole = false;
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  buffer_.reserve(kHeadBytes);
  parser_.emplace();
  parser_->header_limit(server_.options().header_bytes_max);
  parser_->body_limit(UINT64_MAX);  // checked here, for a proper answer
  http::async_read_header(
      socket_, buffer_, *parser_,
      Then([](Connection& self, const error_code& error, size_t) { self.OnHead(error); }));
}

void Connection::OnHead(const error_code& error) {
  request.arrived_at = Now();
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(kHeadersTooLarge, server_.options().header_bytes_max);
  }
  if (error == http::error::bad_version) return Refuse(kVersion);
  if (error == http::error::end_of_stream || error == http::error::partial_message) return Close();
  if (error && IsHttpError(error)) return Refuse(kMalformed);
  if (error) return Close();
  if (!TakeHead()) return Refuse(kMalformed);
  if (server_.draining()) return Refuse(kDraining);
  left_.reset();
  if (const auto length = parser_->content_length()) left_ = *length;
  intake_ = {};
  std::optional<HttpReply> refusal = server_.handler().Check(request, intake_);
  if (refusal.has_value()) return Send(*std::move(refusal), IsWhole());
  if (left_.value_or(0) > intake_.bytes_max) return Refuse(kBodyTooLarge, intake_.bytes_max);
  body = std::make_shared<HttpBody>(server_.options().memory);
  begun_at_ = request.arrived_at;
  received_ = 0;
  state_ = State::kBody;
  const absl::string_view expects = request.Header("expect");
  if (!expects.empty() && !absl::EqualsIgnoreCase(expects, "100-continue")) {
    return Refuse(kExpectation);
  }
  if (expects.empty() || !request.http_1_1 || IsWhole() || buffer_.size() > 0) return ReadBody();
  deadline_ = begun_at_ + TimeFor(0);
  static constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                    Then([](Connection& self, const error_code& failed, size_t) {
                      failed ? self.Close() : self.ReadBody();
                    }));
}

bool Connection::TakeHead() {
  const auto& head = parser_->get();
  request.http_1_1 = head.version() == 11;
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  request.method = text(head.method_string());
  for (const auto& field : head) {
    request.headers.emplace_back(absl::AsciiStrToLower(text(field.name_string())),
                                 text(field.value()));
  }
  std::string target = text(head.target());
  if (absl::StartsWith(target, "http://")) {  // as to a proxy: then the target's host counts
    const size_t path = std::min(target.find_first_of("/?", 7), target.size());
    const std::string host = target.substr(7, path - 7);
    for (auto& [name, value] : request.headers) {
      if (name == "host") value = host;
    }
    target = path < target.size() ? target.substr(path) : "/";
    if (target[0] == '?') target.insert(0, "/");
  }
  const size_t question = std::min(target.find('?'), target.size());
  request.path = target.substr(0, question);
  request.query = target.substr(std::min(question + 1, target.size()));
  // What two servers may read in different ways is refused: bytes of a body would be taken for the
  // next request.
  const size_t lengths = request.Count("content-length");
  const size_t codings = request.Count("transfer-encoding");
  request.has_body = lengths + codings > 0;
  if (request.Count("host") > 1 || lengths + codings > 1) return false;
  if (lengths == 1 &&
      request.Header("content-length").find_first_not_of("0123456789") != absl::string_view::npos) {
    return false;  // Beast takes "1, 1"
  }
  return codings == 0 || (request.http_1_1 &&
                          absl::EqualsIgnoreCase(request.Header("transfer-encoding"), "chunked"));
}

HttpBody::Piece* Connection::Room() {
  if (!body->pieces.empty() && body->pieces.back().size < body->pieces.back().capacity) {
    return &body->pieces.back();
  }
  // As much again as there is, so that a body takes little more than what has come of it.
  uint64_t capacity = std::clamp<uint64_t>(body->bytes / 4096 * 4096, kReadBytes, kPieceBytesMax);
  if (intake_.part_bytes > 0) capacity = std::min(capacity, intake_.part_bytes - body->bytes);
  if (left_.has_value()) capacity = std::min(capacity, *left_);
  while (!body->hold.Take(capacity)) {
    if (!server_.MakeRoom(*this)) return nullptr;
  }
  body->pieces.push_back(
      {std::unique_ptr<uint8_t[]>(new uint8_t[capacity]), 0, static_cast<size_t>(capacity)});
  return &body->pieces.back();
}

void Connection::ReadBody() {
  const uint64_t bytes = body->bytes;
  if (IsWhole() || (intake_.part_bytes > 0 && bytes >= intake_.part_bytes)) return Deliver();
  HttpBody::Piece* const piece = Room();
  if (piece == nullptr) return Refuse(kNoRoom);
  uint8_t* const to = piece->data.get() + piece->size;
  const size_t free = piece->capacity - piece->size;
  deadline_ = std::min(begun_at_ + TimeFor(received_), Now() + kStallMax);
  if (!left_.has_value()) {
    parser_->get().body().data = to;
    parser_->get().body().size = free;
    buffer_.reserve(kReadBytes);
    return http::async_read_some(
        socket_, buffer_, *parser_, Then([free](Connection& self, const error_code& error, size_t) {
          self.OnBody(error == http::error::need_buffer ? error_code() : error,
                      free - self.parser_->get().body().size);
        }));
  }
  // Nothing but the socket's own copy: the parser would make another.
  if (buffer_.size() > 0) {
    const size_t copied = asio::buffer_copy(asio::buffer(to, free), buffer_.data());
    buffer_.consume(copied);
    return OnBody({}, copied);
  }
  socket_.async_read_some(asio::buffer(to, free), Then([](Connection& self, const error_code& error,
                                                          size_t n) { self.OnBody(error, n); }));
}

void Connection::OnBody(const error_code& error, size_t bytes) {
  if (error) {
    return IsHttpError(error) && error != http::error::end_of_stream &&
                   error != http::error::partial_message
               ? Refuse(kMalformed)
               : Close();
  }
  body->pieces.back().size += bytes;
  body->bytes += bytes;
  received_ += bytes;
  if (left_.has_value()) *left_ -= bytes;
  if (received_ > intake_.bytes_max) return Refuse(kBodyTooLarge, intake_.bytes_max);
  ReadBody();
}

void Connection::Deliver() {
  whole = IsWhole();
  state_ = State::kAnswering;
  deadline_ = kNever;
  paused_at_ = Now();
  const auto next = std::exchange(next_, nullptr);
  try {
    next != nullptr ? next() : server_.handler().Answer(Self());
  } catch (const std::exception&) {
    if (state_ == State::kAnswering) Refuse(kInternal);
  }
}

void Connection::ReadOn(std::function<void()> next) {
  if (state_ != State::kAnswering || whole) return;
  next_ = std::move(next);
  body = std::make_shared<HttpBody>(server_.options().memory);
  begun_at_ += Now() - paused_at_;
  state_ = State::kBody;
  ReadBody();
}

void Connection::OnReply(HttpReply reply) {
  if (state_ == State::kAnswering) return Send(std::move(reply), whole);
  if (!receives()) return;
  instead_ = std::move(reply);
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::Send(HttpReply reply, bool keep) {
  keep = keep && server_.options().keep_alive && !server_.draining() && parser_->keep_alive();
  state_ = State::kReply;
  body.reset();
  next_ = nullptr;
  timer_.cancel();
  server_.handler().Finish(request, reply);
  deadline_ = Now() + TimeFor(reply.body.size());
  response_.emplace();
  response_->result(reply.status);
  response_->version(request.http_1_1 ? 11 : 10);
  response_->set(http::field::content_type, reply.type);
  response_->set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : reply.headers) response_->set(name, value);
  response_->content_length(reply.body.size());
  response_->keep_alive(keep);
  if (!keep) response_->set(http::field::connection, "close");
  const bool has_body = request.method != "HEAD" && reply.status != 204;
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
  const TimeNs now = Now();
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto connection = *it++;
    if (connection->receives() && draining_ && now > drained_until_) {
      connection->End(kDraining);
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
