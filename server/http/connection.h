// A client of an HttpServer.
#ifndef HISTOGRAM_SERVER_HTTP_CONNECTION_H_
#define HISTOGRAM_SERVER_HTTP_CONNECTION_H_

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/http/http_server.h"

namespace histogram::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::beast::error_code;

inline constexpr TimeNs kSecond = 1000000000;
inline constexpr TimeNs kEndMax = kSecond;  // for a client to read the last reply
inline constexpr size_t kReadBytes = size_t{64} << 10;

inline constexpr HttpFault kTimedOut = {408, absl::StatusCode::kDeadlineExceeded, "REQUEST_TIMEOUT",
                                        "", "the request came too slowly"};
inline constexpr HttpFault kShutsDown = {503, absl::StatusCode::kUnavailable, "DRAINING", "",
                                         "the server shuts down"};
inline constexpr HttpFault kCut = {499, absl::StatusCode::kCancelled, "", "",
                                   "the connection ended before the body did"};
inline constexpr HttpFault kNoRoom = {503, absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "",
                                      "bodies and replies take all the memory that they may"};

// A client, and its request under way; requests come one after another. The headers come, then the
// body, then the reply goes. At last it awaits the client's end: closing with bytes unread would
// take the reply from the client. Handlers may keep it when it is closed.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  // --- For the handler, which the server's thread calls, and for others that it passes this on to.
  HttpRequest request;
  std::shared_ptr<HttpBody> body;  // what came since the last ReadOn
  bool whole = false;              // no more of the body will come
  bool replied = false;            // perhaps by the server itself

  // Holds room for the reply until it is written. False where there is none. Called on the server's
  // thread.
  bool Hold(uint64_t bytes) { return Take(held_, bytes); }
  // Receives more of the body, and calls `next` once it is there. Called on the server's thread.
  void ReadOn(std::function<void()> next);
  // Calls `run` on the server's thread, unless the client went away before.
  void Run(std::function<void()> run) {
    asio::post(server_.io_, [self = shared_from_this(), run = std::move(run)] {
      if (self->state_ == State::kBody || self->state_ == State::kAnswering) run();
    });
  }
  // The same, later. Called on the server's thread, while nothing is received.
  void RunAfter(TimeNs time, std::function<void()> run) {
    timer_.expires_after(std::chrono::nanoseconds(time));
    timer_.async_wait([self = shared_from_this(), run = std::move(run)](const error_code& error) {
      if (!error && self->state_ == State::kAnswering) run();
    });
  }
  // Called once, on any thread, perhaps before the whole body is there.
  void Reply(HttpReply reply) {
    asio::dispatch(server_.io_, [self = shared_from_this(), reply = std::move(reply)]() mutable {
      self->OnReply(std::move(reply));
    });
  }

  // --- For the server, on its thread.
  enum class State : uint8_t { kHead, kBody, kAnswering, kReply, kEnd, kClosed };

  HttpConnection(HttpServer& server, int fd, const SocketAddress& peer)
      : server_(server),
        work_(server.io_.get_executor()),
        socket_(server.io_),
        timer_(server.io_),
        peer_(NumericAddress(peer)) {
    error_code ignored;
    socket_.assign(peer.get()->sa_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, ignored);
  }

  State state() const { return state_; }
  TimeNs deadline() const { return deadline_; }
  // Nothing of a request has come, read or not.
  bool idle() const {
    error_code error;
    return state_ == State::kHead && buffer_.size() == 0 && socket_.available(error) == 0;
  }
  // Whether the request is not yet whole.
  bool receives() const {
    return state_ == State::kHead || state_ == State::kBody ||
           (state_ == State::kAnswering && !whole);
  }
  uint64_t body_bytes() const { return body == nullptr ? 0 : body->bytes; }
  // Of the body and for the reply.
  uint64_t held_bytes() const { return held_.bytes() + (body == nullptr ? 0 : body->held.bytes()); }
  // Since when the client is sent the reply.
  TimeNs replied_at() const { return replied_at_; }
  std::string host() const { return peer_.substr(0, peer_.rfind(':')); }

  void ReadHead();
  // Refuses a request that is being received. An idle connection closes, unless its read has just
  // ended.
  void End(const HttpFault& fault) {
    if (!idle()) return OnReply(server_.handler_->Refuse(fault, request));
    error_code ignored;
    socket_.cancel(ignored);
  }
  // Gives up the room that it takes. A read that is under way may still write to the body, which
  // goes with the last handler.
  void LetGo() {
    if (body != nullptr) body->held.LetGo(body->held.bytes());
    held_.LetGo(held_.bytes());
  }
  void Close() {
    if (state_ == State::kClosed) return;
    // Nobody gets the reply: the handler counts the request.
    if (state_ == State::kBody && next_ == nullptr) server_.handler_->Refuse(kCut, request);
    state_ = State::kClosed;
    LetGo();
    next_ = nullptr;
    timer_.cancel();
    error_code error;
    const int fd = socket_.release(error);
    server_.Remove(*this, error ? -1 : fd);
  }

 private:
  using Parser = http::request_parser<http::buffer_body>;

  // Runs `next` with the outcome of an operation, unless the connection is closed, or a reply goes
  // instead.
  template <typename Next>
  auto Then(Next next) {
    return [self = shared_from_this(), next = std::move(next)](const error_code& error, size_t n) {
      if (self->state_ == State::kClosed) return;
      if (self->instead_.has_value()) {
        return self->Send(*std::exchange(self->instead_, std::nullopt), /*keep=*/false);
      }
      next(*self, error, n);
    };
  }
  // The time for so many bytes.
  TimeNs TimeFor(uint64_t bytes) const {
    const HttpServerOptions& options = server_.options_;
    const uint64_t rate = options.bytes_per_second_min;
    return options.timeout_ms * (kSecond / 1000) +
           (rate == 0 ? 0 : static_cast<TimeNs>(bytes / rate) * kSecond);
  }
  void OnHead(const error_code& error);
  // Sets the request from the parsed headers. False: they contradict each other.
  bool TakeHead();
  // Whether all of the body is there.
  bool IsWhole() const { return left_.has_value() ? *left_ == 0 : parser_->is_done(); }
  void ReadBody();
  void OnBody(const error_code& error, size_t bytes);
  // Takes from the port's memory, perhaps from another's body. False where there is no room.
  bool Take(Holding& for_what, uint64_t bytes);
  // A piece of the body with free space. Null where there is no room.
  HttpBody::Piece* Room();
  // Passes on what came of the body.
  void Deliver();
  void OnReply(HttpReply reply);
  void Refuse(HttpFault fault, uint64_t limit = 0) {
    fault.limit = limit;
    Send(server_.handler_->Refuse(fault, request), /*keep=*/false);
  }
  void Send(HttpReply reply, bool keep);
  void AwaitEnd();

  HttpServer& server_;
  // The server ends no sooner than this.
  const asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_{kReadBytes};
  std::optional<Parser> parser_;
  std::optional<http::response<http::string_body>> response_;
  Holding held_{*server_.options_.memory};  // for the reply
  std::function<void()> next_;              // waits for more of the body
  std::optional<HttpReply> instead_;        // goes once the operation under way has ended
  HttpIntake intake_;
  std::optional<uint64_t> left_;  // of the body; nothing: it comes in chunks, or there is none
  uint64_t received_ = 0;         // of the body
  State state_ = State::kHead;
  bool reads_on_ = false;  // after the reply: what comes is the rest of a request
  TimeNs begun_at_ = 0;    // the body, without the time in which nothing was to be received
  TimeNs paused_at_ = 0;   // when that time last began
  TimeNs replied_at_ = 0;
  TimeNs deadline_ = kNever;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_CONNECTION_H_
