#include "server/service/call_report.h"

#include <string>
#include <string_view>
#include <utility>

#include "kernels/error.h"

namespace histogram::server {

absl::Status CancelledCall(const CallGuard::Call& receives) {
  if (receives.ended()) {
    return absl::ResourceExhaustedError(
        "ended while its message was received: the server holds too many unfinished messages");
  }
  return absl::CancelledError(
      "the client cancelled the call or went away, its deadline passed, or a message was over "
      "gRPC's own maximum");
}

absl::Status NoMessage(const grpc::ServerContext& context, const CallGuard::Call& receives) {
  if (receives.ended() || context.IsCancelled()) return CancelledCall(receives);
  return MakeError(absl::StatusCode::kInvalidArgument, "the call has no message",
                   {.reason = "MALFORMED_MESSAGE", .field = "message"});
}

void ObserveRefusal(Observer& observer, const absl::Status& status) {
  static constexpr std::pair<std::string_view, RejectReason> kReasons[] = {
      {"QUEUE_FULL", RejectReason::kQueueFull},
      {"PAYLOAD_TOO_LARGE", RejectReason::kPayloadTooLarge},
      {"TOO_MANY_BINS", RejectReason::kTooManyBins},
      {"DRAINING", RejectReason::kDraining},
      {"QUOTA_EXCEEDED", RejectReason::kQuota},
      {"UNAUTHENTICATED", RejectReason::kUnauthenticated},
      {"COMPRESSED_MESSAGE", RejectReason::kCompressed},
      {"HEADERS_TOO_LARGE", RejectReason::kHeadersTooLarge}};
  const std::string reason = GetErrorDetail(status).reason;
  for (const auto& [name, reject_reason] : kReasons) {
    if (reason == name) return observer.Rejected(reject_reason);
  }
  if (absl::IsInvalidArgument(status)) observer.Rejected(RejectReason::kBadRequest);
}

void ReportCall(ServiceContext& service, const Caller& caller, Method method,
                const absl::Status& status, uint64_t payload_bytes, uint64_t duration_ns) {
  if (!status.ok()) ObserveRefusal(service.observer, status);
  service.observer.RequestFinished(method, status.code(), payload_bytes, duration_ns);
  const uint64_t slow_us = service.config.slow_request_us;
  const bool slow = slow_us != 0 && duration_ns >= slow_us * 1000;
  if (status.ok() && !slow) return;
  const std::string peer = PeerAddress(caller.peer);
  service.observer.NoteRequest(
      {.method = method,
       .status = status,
       .payload_bytes = payload_bytes,
       .duration_ns = duration_ns,
       .traceparent = caller.traceparent,
       .tenant = caller.tenant == nullptr ? std::string_view() : caller.tenant->name(),
       .peer = peer});
}

}  // namespace histogram::server
