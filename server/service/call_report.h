// How a call ended, for the observer and the log.
#ifndef HISTOGRAM_SERVER_SERVICE_CALL_REPORT_H_
#define HISTOGRAM_SERVER_SERVICE_CALL_REPORT_H_

#include <grpcpp/server_context.h>

#include <cstdint>

#include "absl/status/status.h"
#include "server/base/observer.h"
#include "server/rpc/call_guard.h"
#include "server/service/identity.h"
#include "server/service/service_context.h"

namespace histogram::server {

// What is reported of a call that ended before its answer was sent: RESOURCE_EXHAUSTED, as its
// client sees it, where the call guard ended it, else CANCELLED.
absl::Status CancelledCall(const CallGuard::Call& receives);

// The same of a unary call whose message does not come. INVALID_ARGUMENT (MALFORMED_MESSAGE) where
// its client has sent none.
absl::Status NoMessage(const grpc::ServerContext& context, const CallGuard::Call& receives);

// Reports a call, or an item of a ComputeMany, that is over.
void ReportCall(ServiceContext& service, const Caller& caller, Method method,
                const absl::Status& status, uint64_t payload_bytes, uint64_t duration_ns);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_CALL_REPORT_H_
