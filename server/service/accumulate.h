// One Accumulate stream: a payload of any length in chunks, in memory of the order of its bins.
#ifndef HISTOGRAM_SERVER_SERVICE_ACCUMULATE_H_
#define HISTOGRAM_SERVER_SERVICE_ACCUMULATE_H_

#include "server/rpc/event_loop.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Awaits one stream in `loop`; when its client comes, it awaits the next one. A stream lives until
// gRPC and the batcher have both let go of it.
void AwaitAccumulate(ServiceContext& service, Methods& methods, EventLoop& loop);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_ACCUMULATE_H_
