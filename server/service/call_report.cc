#include "server/service/call_report.h"

#include <string_view>

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

void ReportCall(ServiceContext& service, const Caller& caller, Method method,
                const absl::Status& status, uint64_t payload_bytes, uint64_t duration_ns) {
  service.observer.RequestFinished(
      {.method = method,
       .status = status,
       .payload_bytes = payload_bytes,
       .duration_ns = duration_ns,
       .traceparent = caller.traceparent,
       .tenant = caller.tenant == nullptr ? std::string_view() : caller.tenant->name(),
       .peer = caller.peer});
}

}  // namespace histogram::server
