// One Accumulate stream: a payload of any length in chunks, in memory of the order of its bins.
#ifndef HISTOGRAM_SERVER_TRANSPORT_ACCUMULATE_H_
#define HISTOGRAM_SERVER_TRANSPORT_ACCUMULATE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/transport/service_context.h"

namespace histogram::server {

// Starts the stream; it lives until gRPC and the batcher have both let go of it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartAccumulate(
    ServiceContext& service, grpc::CallbackServerContext* context);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_ACCUMULATE_H_
