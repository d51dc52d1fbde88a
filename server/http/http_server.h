// An HTTP/1.1 server, on Boost.Beast. One thread serves all connections of a port, so that none
// waits for a slow client.
//
// Everything that a stranger can make it hold has a limit: connections, headers, bodies over all
// connections, and the time that each takes. Where there are too many connections, the client that
// has most loses one: the oldest that has had its last reply, else the oldest whose request is not
// whole. A few descriptors are reserved, so that the server answers when the process has no others.
#ifndef HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_
#define HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/base/memory.h"

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

// A request under way, and where its reply goes. The server's thread calls the handler, and what
// the handler passes on.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
 public:
  virtual ~HttpExchange() = default;
  HttpRequest request;
  std::shared_ptr<HttpBody> body;  // what came since the last ReadOn
  bool whole = false;              // no more of the body will come
  bool replied = false;            // perhaps by the server itself

  // Holds room for the reply until it is written. False where there is none. Called on the server's
  // thread.
  virtual bool Hold(uint64_t bytes) = 0;
  // Receives more of the body, and calls `next` once it is there. Called on the server's thread.
  virtual void ReadOn(std::function<void()> next) = 0;
  // Calls `run` on the server's thread, unless the client went away before.
  virtual void Run(std::function<void()> run) = 0;
  // The same, later. Called on the server's thread, while nothing is received.
  virtual void RunAfter(TimeNs time, std::function<void()> run) = 0;
  // Called once, on any thread, perhaps before the whole body is there.
  virtual void Reply(HttpReply reply) = 0;
};

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
  virtual void Answer(std::shared_ptr<HttpExchange> exchange) = 0;
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
  uint32_t header_bytes_max = 16384;
  // For the headers to arrive, and for a body or a reply besides a second for each
  // `bytes_per_second_min` bytes (0: not) of it.
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
  // Closes all connections, and waits until all exchanges are gone.
  virtual ~HttpServer() = default;

  // The first address that it listens on, with the actual port: "127.0.0.1:9464".
  virtual const std::string& address() const = 0;
  // From now on takes no more connections and requests. Those that are not whole at `deadline` are
  // refused.
  virtual void Drain(TimeNs deadline) = 0;
  // Waits until those under way are over, or little longer than the deadline. REQUIRES: Drain.
  virtual void AwaitDrained() = 0;
  // For how long the server's thread has not turned, as far as the calls of this one tell.
  virtual TimeNs StoodStillNs() = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_HTTP_SERVER_H_
