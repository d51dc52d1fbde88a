// The C++ client of the histogram service: one header, all calls.
//
//   auto client = histogram::client::Client::Connect("127.0.0.1:50051");
//   if (!client.ok()) return client.status();
//   auto reply = (*client)->Compute(histogram::v1::Spec(), "some bytes");
//   if (reply.ok()) Use(reply->histogram());
//
// Every call blocks its caller and runs on the caller's thread: the library starts no threads of
// its own. A Client is thread-safe and is meant to be shared; it owns its connections. Every reply
// is checked before it is handed out: its samples must be those that were sent, and its counts must
// add up to them; otherwise the call fails with INTERNAL.
//
// Errors are absl::Status with the server's message and code. What the server said beyond that
// (the reason, the field, the limit) comes from ErrorDetail(status).
#ifndef HISTOGRAM_CLIENT_H_
#define HISTOGRAM_CLIENT_H_

#include <histogram/v1/histogram.pb.h>

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
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace histogram::client {

// All texts are PEM, not file names.
struct TlsOptions {
  // What the server's certificate must lead to; empty: the system's.
  std::string root_certificates = {};
  // Of this client, for mutual TLS: both or neither.
  std::string certificate_chain = {};
  std::string private_key = {};
  // Expected in the server's certificate instead of the address's host.
  std::string server_name = {};
};

struct ConnectOptions {
  // Behaviour.
  std::optional<TlsOptions> tls = std::nullopt;  // absent: not encrypted
  std::string bearer_token = {};                 // sent as "authorization: Bearer TOKEN"
  // A token travels unencrypted only to this machine (a unix socket or loopback), unless this is
  // set.
  bool bearer_token_without_tls = false;
  // Spread calls over all addresses the name resolves to, leaving out servers that are not ready.
  // false: the first address that answers.
  bool round_robin = true;
  bool health_checking = true;  // of round_robin
  // Attempts of one Compute or Describe, and of ComputeMany's stream without an answer in between,
  // in 1..5; 1: never retry. Accumulate is never retried: what its reader gave is gone.
  int attempts_max = 4;
  absl::Duration backoff_initial = absl::Milliseconds(50);  // > 0; doubles up to backoff_max
  absl::Duration backoff_max = absl::Seconds(1);
  // Performance.
  absl::Duration connect_timeout = absl::Seconds(5);  // of one attempt to connect
  absl::Duration keepalive = absl::Seconds(30);       // >= 10 s; a silent server is given up
  // Payloads up to here can be retried, because gRPC resends only what it has kept: a Compute in
  // flight holds its payload until the server answers. Make it the server's payload limit.
  uint64_t payload_bytes_max = uint64_t{64} << 20;
  std::string user_agent = {};  // put before gRPC's own
};

struct CallOptions {
  absl::Duration timeout = absl::InfiniteDuration();  // of the whole call, retries included
  bool wait_for_ready = false;  // wait for a server rather than fail where none answers
};

// One payload of ComputeMany. Ids are the caller's own and need not be unique.
struct Item {
  uint64_t id = 0;
  v1::Spec spec = {};
  std::string payload = {};
};

struct ItemResult {
  uint64_t id = 0;
  absl::StatusOr<v1::ComputeResponse> response;
};

struct ManyOptions {
  CallOptions call = {};
  // What is sent and unanswered at any time; one payload is always let through.
  size_t in_flight_max = 32;
  uint64_t in_flight_bytes_max = uint64_t{64} << 20;
};

struct AccumulateOptions {
  CallOptions call = {};
  size_t chunk_bytes = size_t{1} << 20;  // 1..the server's payload limit
  // Called after each chunk that gRPC has taken, with the bytes sent so far.
  std::function<void(uint64_t bytes)> on_progress = {};
  // > 0: asks for the histogram so far about every so many bytes. Also called, without being asked
  // for, with what was counted when a server that shuts down ends the stream.
  uint64_t snapshot_bytes = 0;
  std::function<void(const v1::AccumulateResponse&)> on_snapshot = {};
};

// Fills the front of the buffer and says how many bytes; 0: the end; an error ends the call with
// it.
using Reader = std::function<absl::StatusOr<size_t>(absl::Span<char> buffer)>;

enum class HealthStatus { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

class Client {
 public:
  // `address`: HOST:PORT, [V6]:PORT, unix:PATH, or any name gRPC resolves (dns:///NAME:PORT).
  // Only checks what it is given: the connection is made by the first call, and again when it is
  // lost. INVALID_ARGUMENT names what is wrong.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ConnectOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The histogram of one payload. The payload is moved to the wire, not copied, when it is moved
  // in.
  absl::StatusOr<v1::ComputeResponse> Compute(const v1::Spec& spec, std::string payload,
                                              const CallOptions& options = {});

  // Many payloads over one stream. `next` is asked for a payload while fewer than the options'
  // bounds are in flight, until it returns nothing. Each payload it gave gets exactly one call of
  // `on_result`, in order of completion; a payload's own error leaves the others alone. Both are
  // called on the caller's thread. A stream that ends UNAVAILABLE (a server that shuts down) is
  // opened again for the payloads without an answer. When it fails for good they get its error, no
  // more are asked for, and the error is returned.
  absl::Status ComputeMany(const std::function<std::optional<Item>()>& next,
                           const std::function<void(ItemResult)>& on_result,
                           const ManyOptions& options = {});

  // The same for payloads that lie in memory; results[i] belongs to items[i].
  std::vector<ItemResult> ComputeMany(std::vector<Item> items, const ManyOptions& options = {});

  // One payload of any length, in memory for a few chunks. Never retried.
  absl::StatusOr<v1::AccumulateResponse> Accumulate(const v1::Spec& spec, const Reader& reader,
                                                    const AccumulateOptions& options = {});
  absl::StatusOr<v1::AccumulateResponse> AccumulateFile(const v1::Spec& spec,
                                                        const std::string& path,
                                                        const AccumulateOptions& options = {});

  // These two also reach a server that is not ready.
  absl::StatusOr<v1::DescribeResponse> Describe(const CallOptions& options = {});
  // `service`: "" (the server), "liveness", "backend/NAME". NOT_FOUND: the server knows no such
  // name.
  absl::StatusOr<HealthStatus> Health(const std::string& service = "",
                                      const CallOptions& options = {});

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// What the server said about an error, if it said so and `status` came from this library.
std::optional<v1::Error> ErrorDetail(const absl::Status& status);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_H_
