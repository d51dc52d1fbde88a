// The C++ client of the histogram service: one header, all calls.
//
//   auto client = histogram::client::Client::Connect("127.0.0.1:50051");
//   if (!client.ok()) return client.status();
//   auto reply = (*client)->Compute(histogram::v1::Spec(), "some bytes");
//   if (reply.ok()) Use(reply->histogram());
//
// Every call blocks and runs on the caller's thread. The library keeps no threads of its own. A
// Client is thread-safe; share one. It owns its connections. Every histogram that a call returns is
// checked: its number of samples must be that of the payload, and its counts, unless the spec omits
// them, must add up to it. Otherwise the call fails with INTERNAL.
//
// Errors are absl::Status with the server's code and message. ErrorDetail(status) returns the
// server's reason, field and limit.
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
  // The authorities that may have signed the server's certificate; empty: the system's.
  std::string root_certificates = {};
  // This client's own, for mutual TLS: both or neither.
  std::string certificate_chain = {};
  std::string private_key = {};
  // The name that the server's certificate must have; empty: the address's host.
  std::string server_name = {};
};

struct ConnectOptions {
  // Behaviour.
  std::optional<TlsOptions> tls = std::nullopt;  // absent: not encrypted
  std::string bearer_token = {};                 // sent as "authorization: Bearer TOKEN"
  // Without TLS a token is sent only to this machine (a unix socket or loopback), unless this is
  // set. It never goes to a proxy that the environment names (http_proxy).
  bool bearer_token_without_tls = false;
  // Spread calls over the ready servers at all addresses of the name. false: use the first address
  // that answers.
  bool round_robin = true;
  bool health_checking = true;  // with round_robin: call only servers that say they are ready
  // 1 to 5: how often one Compute or Describe is tried; once while most calls to the server fail,
  // for retries would add to an overload. ComputeMany gives up after so many attempts in a row
  // without an answer. Accumulate is never retried: its reader cannot go back.
  int attempts_max = 4;
  absl::Duration backoff_initial = absl::Milliseconds(50);  // > 0; doubles up to backoff_max
  absl::Duration backoff_max = absl::Seconds(1);
  // Performance.
  absl::Duration connect_timeout = absl::Seconds(5);  // of one attempt to connect
  absl::Duration keepalive = absl::Seconds(30);       // >= 10 s; detects a server that is gone
  // The largest payload that can be retried. gRPC keeps what it may resend: a Compute holds its
  // payload until the server answers. Set it to the server's payload limit.
  uint64_t payload_bytes_max = uint64_t{64} << 20;
  std::string user_agent = {};  // precedes gRPC's own
};

struct CallOptions {
  // Of the whole call with its retries. <= 0: DEADLINE_EXCEEDED at once.
  absl::Duration timeout = absl::InfiniteDuration();
  bool wait_for_ready = false;  // wait if no server answers, rather than fail
};

// One payload of ComputeMany. The caller chooses ids; they need not be unique.
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
  // While so many payloads, or so many bytes, are unanswered, the next payload waits.
  // Before the first answer a stream is tried again only while its bytes are within
  // ConnectOptions::payload_bytes_max.
  size_t in_flight_max = 32;
  uint64_t in_flight_bytes_max = uint64_t{64} << 20;
};

struct AccumulateOptions {
  CallOptions call = {};
  size_t chunk_bytes = size_t{1} << 20;  // 1..the server's payload limit
  // Called after gRPC has taken a chunk, with the bytes sent so far.
  std::function<void(uint64_t bytes)> on_progress = {};
  // > 0: on_snapshot gets the histogram so far, about every so many bytes. It also gets the counts
  // so far if a server that shuts down ends the stream.
  uint64_t snapshot_bytes = 0;
  std::function<void(const v1::AccumulateResponse&)> on_snapshot = {};
};

// Fills the front of the buffer and returns the number of bytes; 0: the end. If it returns an
// error, the call fails with that.
using Reader = std::function<absl::StatusOr<size_t>(absl::Span<char> buffer)>;

enum class HealthStatus { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

class Client {
 public:
  // `address`: HOST:PORT, [V6]:PORT, unix:PATH, or any name gRPC resolves (dns:///NAME:PORT).
  // Checks its arguments: INVALID_ARGUMENT names the bad one. RESOURCE_EXHAUSTED: the system allows
  // too few threads or descriptors for gRPC. The first call makes the connection. A later call
  // makes a lost one again.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ConnectOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The histogram of one payload. Move the payload in: then it is not copied.
  absl::StatusOr<v1::ComputeResponse> Compute(const v1::Spec& spec, std::string payload,
                                              const CallOptions& options = {});

  // Histograms of many payloads, over one stream at a time. Calls `next` for payloads, as long as
  // the options' bounds allow, until it returns nullopt. Calls `on_result` exactly once for each
  // payload, in order of completion. Both run on the caller's thread. A payload's error does not
  // affect the others. If the stream ends UNAVAILABLE (the server shuts down), it is opened again
  // for the payloads without an answer. If it fails for good, they get its error, `next` is not
  // called again, and ComputeMany returns the error.
  absl::Status ComputeMany(const std::function<std::optional<Item>()>& next,
                           const std::function<void(ItemResult)>& on_result,
                           const ManyOptions& options = {});

  // The same for payloads in memory. results[i] belongs to items[i].
  std::vector<ItemResult> ComputeMany(std::vector<Item> items, const ManyOptions& options = {});

  // The histogram of one payload of any length. Holds a few chunks in memory. Never retried.
  absl::StatusOr<v1::AccumulateResponse> Accumulate(const v1::Spec& spec, const Reader& reader,
                                                    const AccumulateOptions& options = {});
  absl::StatusOr<v1::AccumulateResponse> AccumulateFile(const v1::Spec& spec,
                                                        const std::string& path,
                                                        const AccumulateOptions& options = {});

  // These two also reach a server that is not ready.
  absl::StatusOr<v1::DescribeResponse> Describe(const CallOptions& options = {});
  // `service`: "" (the server), "liveness", "backend/NAME". NOT_FOUND: the server does not know it.
  absl::StatusOr<HealthStatus> Health(const std::string& service = "",
                                      const CallOptions& options = {});

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The server's details of an error; nullopt if it sent none or `status` is not from this library.
std::optional<v1::Error> ErrorDetail(const absl::Status& status);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_H_
