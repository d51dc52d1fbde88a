// What a call takes of its tenant's quota, and of the room for replies and totals.
#ifndef HISTOGRAM_SERVER_SERVICE_QUOTA_H_
#define HISTOGRAM_SERVER_SERVICE_QUOTA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/rpc/call_guard.h"
#include "server/service/identity.h"
#include "server/service/service_context.h"

namespace histogram::server {

// One request's part of its caller's quota, if the caller has one.
class QuotaCharge {
 public:
  // Takes the payload's bytes, or fails. Until Accept they may be given back.
  absl::Status Take(ServiceContext& service, const Caller& caller, uint64_t bytes);
  // The request is refused.
  void GiveBack(const Caller& caller);
  // The request was accepted.
  void Accept(ServiceContext& service, const Caller& caller);

 private:
  uint64_t bytes_ = 0;
};

// Charges a reply of `bytes` to its caller. Thread-safe.
void ChargeReply(ServiceContext& service, const Caller& caller, uint64_t bytes);

// Holds room for what a stream adds up, or RESOURCE_EXHAUSTED (QUEUE_FULL).
absl::Status HoldTotals(CallGuard::Call& call, uint64_t bytes);

// Holds room for a reply of up to `bytes`, or RESOURCE_EXHAUSTED (QUEUE_FULL).
absl::Status HoldReply(CallGuard::Call& call, uint64_t bytes);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_QUOTA_H_
