#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <exception>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

constexpr TimeNs kStallMax = 30 * kSecond;      // between two reads of a body
constexpr size_t kHeadBytes = size_t{4} << 10;  // that most headers take
constexpr size_t kPieceBytesMax = size_t{1} << 20;

using Code = absl::StatusCode;
constexpr HttpFault kMalformed = {400, Code::kInvalidArgument, "MALFORMED_MESSAGE", "",
                                  "the request is no HTTP, or its headers contradict each other"};
constexpr HttpFault kBodyTooLarge = {413, Code::kResourceExhausted, "PAYLOAD_TOO_LARGE", "body",
                                     "body: more bytes than the limit of "};
constexpr HttpFault kExpectation = {417, Code::kInvalidArgument, "EXPECTATION_FAILED", "Expect",
                                    "Expect: must be 100-continue"};
constexpr HttpFault kHeadersTooLarge = {431, Code::kResourceExhausted, "HEADERS_TOO_LARGE",
                                        "headers", "headers: more bytes than the limit of "};
constexpr HttpFault kInternal = {500, Code::kInternal, "INTERNAL", "", "internal error"};
constexpr HttpFault kVersion = {505, Code::kUnimplemented, "VERSION_NOT_SUPPORTED", "",
                                "the port speaks HTTP/1.1"};

TimeNs Now() { return Clock::Monotonic().Now(); }

bool IsHttpError(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

}  // namespace

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

bool HttpConnection::Take(Holding& for_what, uint64_t bytes) {
  while (!for_what.TryHold(bytes)) {
    if (bytes > server_.options_.memory->limit() || !server_.MakeRoom(*this)) return false;
  }
  return true;
}

void HttpConnection::ReadHead() {
  state_ = State::kHead;
  if (server_.draining_ && idle()) return Close();
  deadline_ = Now() + TimeFor(0);
  request = {};
  request.peer = peer_;
  whole = replied = reads_on_ = false;
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  buffer_.reserve(kHeadBytes);
  parser_.emplace();
  parser_->header_limit(kHeaderBytesMax);
  parser_->body_limit(UINT64_MAX);  // checked here, for a proper answer
  http::async_read_header(
      socket_, buffer_, *parser_,
      Then([](HttpConnection& self, const error_code& error, size_t) { self.OnHead(error); }));
}

void HttpConnection::OnHead(const error_code& error) {
  request.arrived_at = Now();
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(kHeadersTooLarge, kHeaderBytesMax);
  }
  if (error == http::error::bad_version) return Refuse(kVersion);
  if (error == http::error::end_of_stream || error == http::error::partial_message) return Close();
  if (error && IsHttpError(error)) return Refuse(kMalformed);
  if (error) return Close();
  if (!TakeHead()) return Refuse(kMalformed);
  reads_on_ = true;
  if (server_.draining_) return Refuse(kShutsDown);
  left_.reset();
  if (const auto length = parser_->content_length()) left_ = *length;
  intake_ = {};
  std::optional<HttpReply> refusal = server_.handler_->Check(request, intake_);
  if (refusal.has_value()) return Send(*std::move(refusal), IsWhole());
  if (left_.value_or(0) > intake_.bytes_max) return Refuse(kBodyTooLarge, intake_.bytes_max);
  body = std::make_shared<HttpBody>(server_.options_.memory);
  begun_at_ = request.arrived_at;
  received_ = 0;
  state_ = State::kBody;
  const absl::string_view expects = request.Header("expect");
  if (!expects.empty() && !absl::EqualsIgnoreCase(expects, "100-continue")) {
    return Refuse(kExpectation);
  }
  if (expects.empty() || parser_->get().version() < 11 || IsWhole() || buffer_.size() > 0) {
    return ReadBody();
  }
  deadline_ = begun_at_ + TimeFor(0);
  static constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue.data(), kContinue.size()),
                    Then([](HttpConnection& self, const error_code& failed, size_t) {
                      failed ? self.Close() : self.ReadBody();
                    }));
}

bool HttpConnection::TakeHead() {
  const auto& head = parser_->get();
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  request.method = text(head.method_string());
  for (const auto& field : head) {
    request.headers.emplace_back(absl::AsciiStrToLower(text(field.name_string())),
                                 text(field.value()));
  }
  std::string target = text(head.target());
  // As to a proxy: then the target's host counts.
  if (absl::StartsWithIgnoreCase(target, "http://")) {
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
  // Refuses headers that two servers may read in different ways: one of them would take bytes of
  // the body for the next request.
  const size_t lengths = request.Count("content-length");
  const size_t codings = request.Count("transfer-encoding");
  request.has_body = lengths + codings > 0;
  if (request.Count("host") > 1 || lengths + codings > 1) return false;
  if (lengths == 1 &&
      request.Header("content-length").find_first_not_of("0123456789") != absl::string_view::npos) {
    return false;  // Beast takes "1, 1"
  }
  return codings == 0 || (head.version() == 11 &&
                          absl::EqualsIgnoreCase(request.Header("transfer-encoding"), "chunked"));
}

HttpBody::Piece* HttpConnection::Room() {
  if (!body->pieces.empty() && body->pieces.back().size < body->pieces.back().capacity) {
    return &body->pieces.back();
  }
  // As much again as there is, so that a body takes little more than what has come of it.
  uint64_t capacity = std::clamp<uint64_t>(body->bytes / 4096 * 4096, kReadBytes, kPieceBytesMax);
  if (intake_.part_bytes > 0) capacity = std::min(capacity, intake_.part_bytes - body->bytes);
  if (left_.has_value()) capacity = std::min(capacity, *left_);
  // A body that is passed on in parts soon makes room itself, and takes none from other bodies.
  const bool passes_on = intake_.part_bytes > 0 && body->bytes > 0;
  if (!(passes_on ? body->held.TryHold(capacity) : Take(body->held, capacity))) return nullptr;
  body->pieces.push_back(
      {std::unique_ptr<uint8_t[]>(new uint8_t[capacity]), 0, static_cast<size_t>(capacity)});
  return &body->pieces.back();
}

void HttpConnection::ReadBody() {
  const uint64_t bytes = body->bytes;
  if (IsWhole() || (intake_.part_bytes > 0 && bytes >= intake_.part_bytes)) return Deliver();
  HttpBody::Piece* const piece = Room();
  if (piece == nullptr && intake_.part_bytes > 0 && bytes > 0) return Deliver();
  if (piece == nullptr) return Refuse(kNoRoom);
  uint8_t* const to = piece->data.get() + piece->size;
  const size_t free = piece->capacity - piece->size;
  deadline_ = std::min(begun_at_ + TimeFor(received_), Now() + kStallMax);
  if (!left_.has_value()) {
    parser_->get().body().data = to;
    parser_->get().body().size = free;
    buffer_.reserve(kReadBytes);
    return http::async_read_some(
        socket_, buffer_, *parser_,
        Then([free](HttpConnection& self, const error_code& error, size_t) {
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
  socket_.async_read_some(
      asio::buffer(to, free),
      Then([](HttpConnection& self, const error_code& error, size_t n) { self.OnBody(error, n); }));
}

void HttpConnection::OnBody(const error_code& error, size_t bytes) {
  if (error) {
    reads_on_ = false;
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

void HttpConnection::Deliver() {
  whole = IsWhole();
  state_ = State::kAnswering;
  deadline_ = kNever;
  paused_at_ = Now();
  const auto next = std::exchange(next_, nullptr);
  try {
    next != nullptr ? next() : server_.handler_->Answer(shared_from_this());
  } catch (const std::exception&) {
    if (state_ == State::kAnswering) Refuse(kInternal);
  }
}

void HttpConnection::ReadOn(std::function<void()> next) {
  if (state_ != State::kAnswering || whole) return;
  next_ = std::move(next);
  body = std::make_shared<HttpBody>(server_.options_.memory);
  begun_at_ += Now() - paused_at_;
  state_ = State::kBody;
  ReadBody();
}

void HttpConnection::OnReply(HttpReply reply) {
  if (state_ == State::kAnswering) return Send(std::move(reply), whole);
  if (!receives()) return;
  instead_ = std::move(reply);
  error_code ignored;
  socket_.cancel(ignored);
}

void HttpConnection::Send(HttpReply reply, bool keep) {
  keep = keep && server_.options_.keep_alive && !server_.draining_ && parser_->keep_alive();
  state_ = State::kReply;
  replied = true;
  body.reset();
  next_ = nullptr;
  timer_.cancel();
  server_.handler_->Finish(request, reply);
  replied_at_ = Now();
  deadline_ = replied_at_ + TimeFor(reply.body.size());
  held_.LetGo(held_.bytes() - std::min<uint64_t>(held_.bytes(), reply.body.size()));
  response_.emplace();
  response_->result(reply.status);
  response_->version(parser_->get().version());
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
                    Then([keep](HttpConnection& self, const error_code& error, size_t) {
                      self.response_.reset();
                      self.held_.LetGo(self.held_.bytes());
                      if (error) return self.Close();
                      if (keep) return self.ReadHead();
                      error_code ignored;
                      self.socket_.shutdown(tcp::socket::shutdown_send, ignored);
                      self.state_ = State::kEnd;
                      self.buffer_.consume(self.buffer_.size());
                      self.AwaitEnd();
                    }));
}

void HttpConnection::AwaitEnd() {
  // A client that is still sending a body has not read the reply.
  deadline_ = std::min(replied_at_ + (reads_on_ ? TimeFor(0) : kEndMax), Now() + kEndMax);
  socket_.async_read_some(buffer_.prepare(kReadBytes / 2),
                          Then([](HttpConnection& self, const error_code& error, size_t) {
                            error ? self.Close() : self.AwaitEnd();
                          }));
}

}  // namespace histogram::server
