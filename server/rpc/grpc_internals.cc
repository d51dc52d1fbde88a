#include "server/rpc/grpc_internals.h"

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <cstdlib>
#include <type_traits>

namespace histogram::server {
namespace {

constexpr bool kOld = GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 57;
#ifdef HISTOGRAM_GRPC_PATCHED
constexpr bool kPatched = true;
#else
constexpr bool kPatched = false;
#endif

}  // namespace

bool HasKnownFlaws() { return kOld && !kPatched; }

void AvoidReadChunks() {
  if (kOld) setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
}

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
