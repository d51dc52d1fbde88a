// The maker of a call: tenant, identity for fairness, and the trace that the call belongs to; what
// its requests take of the tenant's quota and of the room for replies; and what is reported of
// them.
#ifndef HISTOGRAM_SERVER_SERVICE_CALLER_H_
#define HISTOGRAM_SERVER_SERVICE_CALLER_H_

#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/base/observer.h"
#include "server/rpc/call_guard.h"
#include "server/service/authenticator.h"
#include "server/service/service_context.h"

namespace histogram::server {

struct Caller {
  explicit Caller(ServiceContext& its_service) : service(its_service) {}

  // Reads the call's metadata and checks its token. RESOURCE_EXHAUSTED (HEADERS_TOO_LARGE) where
  // the metadata is over the limit, UNAUTHENTICATED where tokens are configured and the call shows
  // none that is known; the trace is set all the same.
  absl::Status Identify(const grpc::ServerContext& its_context);
  // Checks a call's token and sets its tenant, as above. `value`: of the first of its `headers`
  // "authorization".
  absl::Status CheckToken(size_t headers, std::string_view value);

  // Who shares the queue fairly with others: tenant, else client certificate, else connection.
  uint64_t FairnessId() const;

  // Charges a reply of `bytes`. Thread-safe.
  void ChargeReply(uint64_t bytes) const;
  // Reports a call, or an item of a ComputeMany, that is over. Thread-safe.
  void Report(Method method, const absl::Status& status, uint64_t payload_bytes,
              uint64_t duration_ns) const;

  ServiceContext& service;
  uint64_t peer_id = 0;            // of the tenant, else of the client certificate; 0: neither
  std::string peer;                // its address as gRPC writes it, and forgets it when cancelled
  std::shared_ptr<Tenant> tenant;  // null where no tokens are configured
  std::string traceparent;         // W3C Trace Context, validated; empty where none was sent
};

// version-traceid-parentid-flags in lower-case hex, as https://www.w3.org/TR/trace-context/ has it.
bool IsTraceparent(std::string_view value);

// One request's part of its caller's quota, if the caller has one.
class QuotaCharge {
 public:
  // Takes the payload's bytes, or fails. Until Accept they may be given back.
  absl::Status Take(const Caller& caller, uint64_t bytes);
  // The request is refused.
  void GiveBack(const Caller& caller);
  // The request was accepted.
  void Accept(const Caller& caller);

 private:
  uint64_t bytes_ = 0;
};

// Holds room for what a stream adds up, or RESOURCE_EXHAUSTED (QUEUE_FULL).
absl::Status HoldTotals(CallGuard::Call& call, uint64_t bytes);
// Holds room for a reply of up to `bytes`, or RESOURCE_EXHAUSTED (QUEUE_FULL).
absl::Status HoldReply(CallGuard::Call& call, uint64_t bytes);

// What is reported of a call that ended before its answer was sent: RESOURCE_EXHAUSTED, as its
// client sees it, where the call guard ended it, else CANCELLED.
absl::Status CancelledCall(const CallGuard::Call& receives);
// The same of a unary call whose message does not come. INVALID_ARGUMENT (MALFORMED_MESSAGE) where
// its client has sent none.
absl::Status NoMessage(const grpc::ServerContext& context, const CallGuard::Call& receives);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_CALLER_H_
