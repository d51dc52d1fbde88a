#include "server/rpc/grpc_internals.h"

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <type_traits>

namespace histogram::server {

// A ByteBuffer holds one member, a pointer to the C interface's buffer.
bool IsCompressed(const grpc::ByteBuffer& message) {
  if (!message.Valid()) return false;
  static_assert(sizeof(grpc::ByteBuffer) == sizeof(void*) &&
                std::is_standard_layout_v<grpc::ByteBuffer>);
  const grpc_byte_buffer* raw = *reinterpret_cast<grpc_byte_buffer* const*>(&message);
  return raw->type == GRPC_BB_RAW && raw->data.raw.compression != GRPC_COMPRESS_NONE;
}

uint8_t* WritableBytes(grpc::Slice& slice) { return const_cast<uint8_t*>(slice.begin()); }

void CancelAllCalls(grpc::Server& server) { grpc_server_cancel_all_calls(server.c_server()); }

void RawService::AddRawMethod(const char* path, MessagesOf messages) {
  using grpc::internal::RpcMethod;
  const auto type =
      messages == MessagesOf::kUnary ? RpcMethod::NORMAL_RPC : RpcMethod::BIDI_STREAMING;
  AddMethod(new grpc::internal::RpcServiceMethod(path, type, nullptr));  // the service owns it
  MarkMethodRaw(methods_++);
}

}  // namespace histogram::server
