// One ComputeMany stream: many payloads, replies in order of completion.
#ifndef HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_
#define HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_

#include "server/rpc/call_queues.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Awaits one stream in `queue`, and with it, again and again, the next one. A stream lives until
// gRPC and the batcher have both let go of it.
void AwaitComputeMany(ServiceContext& service, Methods& methods, CallQueue& queue);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_
