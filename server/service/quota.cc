#include "server/service/quota.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {
namespace {

absl::Status NoRoom(const char* what, uint64_t bytes, uint64_t held, uint64_t limit) {
  constexpr uint32_t kRetryAfterMs = 1000;
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("replies that clients have not read, and the totals of streams, take ", held,
                   " bytes of ", limit, "; ", what, " takes up to ", bytes),
      {.reason = "QUEUE_FULL", .limit = limit, .retry_after_ms = kRetryAfterMs});
}

}  // namespace

absl::Status QuotaCharge::Take(ServiceContext& service, const Caller& caller, uint64_t bytes) {
  if (caller.tenant == nullptr) return absl::OkStatus();
  absl::Status status = caller.tenant->Charge(bytes, service.clock.Now());
  if (status.ok()) bytes_ = bytes;
  return status;
}

void QuotaCharge::GiveBack(const Caller& caller) {
  if (bytes_ > 0) caller.tenant->Refund(std::exchange(bytes_, 0));
}

void QuotaCharge::Accept(ServiceContext& service, const Caller& caller) {
  if (bytes_ > 0) service.observer.TenantBytes(caller.tenant->name(), std::exchange(bytes_, 0));
}

void ChargeReply(ServiceContext& service, const Caller& caller, uint64_t bytes) {
  if (caller.tenant == nullptr) return;
  caller.tenant->ChargeReply(bytes, service.clock.Now());
  service.observer.TenantBytes(caller.tenant->name(), bytes);
}

absl::Status HoldTotals(CallGuard::Call& call, uint64_t bytes) {
  if (bytes == 0 || call.HoldTotals(bytes)) return absl::OkStatus();
  return NoRoom("this stream's total", bytes, call.ledger().replies.bytes(),
                call.ledger().totals.limit());
}

absl::Status HoldReply(CallGuard::Call& call, uint64_t bytes) {
  if (call.Hold(bytes)) return absl::OkStatus();
  return NoRoom("this request's reply", bytes, call.ledger().replies.bytes(),
                2 * call.ledger().replies.limit());
}

}  // namespace histogram::server
