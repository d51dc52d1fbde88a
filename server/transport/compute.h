// One unary Compute call.
#ifndef HISTOGRAM_SERVER_TRANSPORT_COMPUTE_H_
#define HISTOGRAM_SERVER_TRANSPORT_COMPUTE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/transport/service_context.h"

namespace histogram::server {

// Starts the call; the reactor deletes itself when gRPC is done with it.
// `request` and `response` belong to gRPC and live until then.
grpc::ServerUnaryReactor* StartCompute(ServiceContext& service,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_COMPUTE_H_
