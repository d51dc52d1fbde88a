// An HTTP/1.1 server, on Boost.Beast. One thread serves all connections of a port, so that none
// waits for a slow client.
//
// Everything that a stranger can make it hold has a limit: connections, headers, bodies over all
// connections, and the time that each takes. Where there are too many connections, the client that
// has most loses one: the oldest that has had its last reply, else the oldest whose headers are not
// whole, else the oldest whose body is not, else the oldest that is being sent a reply. A few
// descriptors are reserved, so that the server answers when the process has no others.
#ifndef HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_
#define HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "server/base/clock.h"
#include "server/base/memory.h"
#include "server/http/sockets.h"

namespace histogram::server {

// The body as it was received, in pieces of whole multiples of eight bytes but the last.
struct HttpBody {
  struct Piece {
    std::unique_ptr<uint8_t[]> data;
    size_t size = 0;  // that are filled
    size_t capacity = 0;
  };
  explicit HttpBody(std::shared_ptr<MemoryClass> its_memory) : memory(std::move(its_memory)) {}
  // A copy of all that came.
  std::string Text() const {
    std::string text;
    for (const Piece& piece : pieces) {
      text.append(reinterpret_cast<const char*>(piece.data.get()), piece.size);
    }
    return text;
  }

  const std::shared_ptr<MemoryClass> memory;
  Holding held{*memory};
  std::vector<Piece> pieces;
  uint64_t bytes = 0;  // received
};

struct HttpRequest {
  std::string method, path, query;                           // path and query as they came
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string peer;                                          // "127.0.0.1:40000"
  bool has_body = false;                                     // by its headers, perhaps of no bytes
  TimeNs arrived_at = 0;                                     // when its headers were there

  // The first header of this name; empty where there is none.
  absl::string_view Header(absl::string_view name) const;
  size_t Count(absl::string_view name) const;
};

struct HttpReply {
  unsigned status = 200;
  std::string body = {};
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Why the server itself refuses a request.
struct HttpFault {
  unsigned status;
  absl::StatusCode code;
  const char* reason;  // as of the API's errors
  const char* field;   // that is wrong; may be empty
  const char* what;
  uint64_t limit = 0;  // that was exceeded
};

class HttpConnection;  // connection.h: a request under way, and where its reply goes

// How a body is received: in parts of about `part_bytes` (a multiple of eight; 0: in one), of at
// most `bytes_max` together.
struct HttpIntake {
  uint64_t bytes_max = 0;
  uint64_t part_bytes = 0;
};

// What a port answers. Called on the server's thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The headers are there. Returns a refusal; or nothing, then a body is received as `intake` says.
  virtual std::optional<HttpReply> Check(const HttpRequest& request, HttpIntake& intake) = 0;
  // The body, or its first part, is there. The exchange lives as long as the handler keeps it. An
  // exception before Reply is a fault.
  virtual void Answer(std::shared_ptr<HttpConnection> exchange) = 0;
  // `request` has what is known.
  virtual HttpReply Refuse(const HttpFault& fault, const HttpRequest& request) = 0;
  // Adds the headers that all replies have.
  virtual void Finish(const HttpRequest&, HttpReply&) {}
};

struct HttpServerOptions {
  std::string listen;                        // HOST:PORT or [V6]:PORT; port 0: any free one
  std::string flag = "--http-listen";        // that sets `listen`, for messages
  const char* thread_name = "http-service";  // at most 15 characters
  size_t connections_max = 64;
  bool keep_alive = false;  // a connection may have several requests
  // The time that headers, a body and a reply may each take. A body and a reply may take a second
  // more for each `bytes_per_second_min` of their bytes (0: no more).
  uint32_t timeout_ms = 5000;
  uint64_t bytes_per_second_min = 0;
  std::shared_ptr<MemoryClass> memory;  // of bodies and replies; null: no bodies
};

class HttpServer {
 public:
  // The server listens when Start returns, on all addresses of a name. INVALID_ARGUMENT for a
  // malformed address, UNAVAILABLE if one cannot be bound; the message names the address and the
  // reason.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                           std::unique_ptr<HttpHandler> handler);
  // Closes all connections, and waits until no handler keeps one.
  ~HttpServer();

  // The first address that it listens on, with the actual port: "127.0.0.1:9464".
  const std::string& address() const { return address_; }
  // From now on takes no more connections and requests. Those that are not whole at `deadline` are
  // refused.
  void Drain(TimeNs deadline);
  // Waits until those under way are over, or little longer than the deadline. REQUIRES: Drain.
  void AwaitDrained() { drained_.WaitForNotification(); }
  // For how long the server's thread has not turned, as far as the calls of this one tell.
  TimeNs StoodStillNs();

 private:
  friend HttpConnection;  // on the server's thread
  HttpServer(HttpServerOptions options, std::unique_ptr<HttpHandler> handler)
      : options_(std::move(options)), handler_(std::move(handler)) {
    if (options_.memory == nullptr) options_.memory = std::make_shared<MemoryClass>(0);
  }
  absl::Status Begin();
  void AwaitClients(size_t listener);
  // Takes clients in. Returns whether more may wait.
  bool Accept(size_t listener);
  // Closes the connection that matters least, of the client that has most. False: all are being
  // answered.
  bool CloseOne();
  // Ends a body that is half received, or a reply that is not read, so that `wants` has room: the
  // oldest of the client that holds most. False: it has none but `wants`.
  bool MakeRoom(const HttpConnection& wants);
  void Remove(HttpConnection& connection, int fd);
  // Ends what has taken too long.
  void Look();
  void AwaitLook();

  HttpServerOptions options_;
  const std::unique_ptr<HttpHandler> handler_;
  std::string address_;
  SpareDescriptors spare_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  boost::asio::steady_timer timer_{io_};
  std::vector<boost::asio::ip::tcp::acceptor> listeners_;
  std::list<std::shared_ptr<HttpConnection>> connections_;  // the oldest first
  bool draining_ = false;
  std::atomic<TimeNs> asked_at_{0};  // whether the thread turns; 0: it has answered
  std::vector<size_t> paused_;       // listeners that wait for a descriptor
  TimeNs drained_until_ = kNever;
  absl::Notification drained_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_
