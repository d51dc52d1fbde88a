// One unary Compute call.
#ifndef HISTOGRAM_SERVER_SERVICE_COMPUTE_H_
#define HISTOGRAM_SERVER_SERVICE_COMPUTE_H_

#include "server/rpc/event_loop.h"
#include "server/service/methods.h"
#include "server/service/service_context.h"

namespace histogram::server {

// Awaits one call in `loop`; when its client comes, it awaits the next one.
void AwaitCompute(ServiceContext& service, Methods& methods, EventLoop& loop);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_COMPUTE_H_
