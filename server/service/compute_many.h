// One ComputeMany stream: many payloads, replies in order of completion.
#ifndef HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_
#define HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_

#include "server/rpc/event_loop.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Awaits one stream in `loop`; when its client comes, it awaits the next one. A stream lives until
// gRPC and the batcher have both let go of it.
void AwaitComputeMany(ServiceContext& service, Methods& methods, EventLoop& loop);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_COMPUTE_MANY_H_
