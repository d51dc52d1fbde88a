// The calls that carry payloads; each has a file of its own.
#ifndef HISTOGRAM_SERVER_SERVICE_CALLS_H_
#define HISTOGRAM_SERVER_SERVICE_CALLS_H_

#include "server/rpc/event_loop.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Each awaits one call in `loop`; when its client comes, it awaits the next one. A call lives until
// gRPC and the batcher have both let go of it.
void AwaitCompute(ServiceContext& service, Methods& methods, EventLoop& loop);
// Many payloads, replies in order of completion.
void AwaitComputeMany(ServiceContext& service, Methods& methods, EventLoop& loop);
// A payload of any length in chunks, in memory of the order of its bins.
void AwaitAccumulate(ServiceContext& service, Methods& methods, EventLoop& loop);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_CALLS_H_
