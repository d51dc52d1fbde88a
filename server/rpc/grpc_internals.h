// What the server needs of gRPC beyond its public C++ interface. No other file of the server
// reaches past that interface, so a change of gRPC's is met here. Functions without state.
#ifndef HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_
#define HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/version_info.h>

// grpc::SerializationTraits of protobuf's messages: 1.51 has it at the second place, newer versions
// at the first.
#if __has_include(<grpcpp/impl/proto_utils.h>)
#include <grpcpp/impl/proto_utils.h>
#else
#include <grpcpp/impl/codegen/proto_utils.h>
#endif

#include <cstdint>

// From 1.65 on gRPC logs through absl, and gpr_set_log_function does nothing or is gone.
#define HISTOGRAM_GRPC_HAS_LOG_FUNCTION (GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65)

namespace histogram::server {

// Whether a received message came compressed. gRPC tells it through the C interface alone.
bool IsCompressed(const grpc::ByteBuffer& message);

// The bytes of a slice, to be written. gRPC offers only a view of those that it has allocated.
// REQUIRES: nobody else holds a reference to them yet.
uint8_t* WritableBytes(grpc::Slice& slice);

// gRPC up to 1.56, as it is, has flaws that a client can use to end the process or to silence it
// (docs/operations/security.md). False for builds with deploy/grpc-patches.
bool HasKnownFlaws();

// Turns an experiment of gRPC 1.51 off, with which 2 GiB of control frames on one connection abort
// the process. GRPC_EXPERIMENTS in the environment wins. Call before gRPC starts.
void AvoidReadChunks();

// Ends every call and watcher that is still open on the server at once.
void CancelAllCalls(grpc::Server& server);

// A service whose methods carry raw messages, without generated code.
class RawService : public grpc::Service {
 protected:
  enum class MessagesOf : uint8_t {
    kUnary,
    kStreams,  // both sides may send several
  };
  // The first method has index 0, the next 1. `path` is "/package.Service/Method".
  void AddRawMethod(const char* path, MessagesOf messages);

 private:
  int methods_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_
