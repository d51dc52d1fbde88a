// What the server needs of gRPC beyond its public C++ interface. No other file of the server
// reaches past that interface, so a change of gRPC's is met here. Functions without state.
#ifndef HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_
#define HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>
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
#include <string>

#include "server/base/receive_memory.h"

namespace histogram::server {

// Whether a received message came compressed. gRPC tells it through the C interface alone.
bool IsCompressed(const grpc::ByteBuffer& message);

// The bytes of a slice, to be written. gRPC offers only a view of those that it has allocated.
// REQUIRES: nobody else holds a reference to them yet.
uint8_t* WritableBytes(grpc::Slice& slice);

// gRPC up to 1.56, as it is, has flaws that a client can use to end the process or to silence it
// (docs/operations/security.md). Returns false for builds with deploy/grpc-patches. Where gRPC has
// these flaws, returns true and turns an experiment of it off, with which 2 GiB of control frames
// on one connection abort the process. GRPC_EXPERIMENTS in the environment wins. Call before gRPC
// starts.
bool AvoidKnownFlaws();

// Whether this gRPC reads connections into memory of ours: deploy/grpc-patches let it.
bool HasReceiveMemory();

// From now on gRPC reads connections into blocks of this memory, and into its own where there are
// none. Call before gRPC starts; `memory` outlives the process's use of gRPC.
// REQUIRES: HasReceiveMemory().
void ReceiveInto(ReceiveMemory& memory);

// From now on the lines of gRPC and protobuf become lines of the server's log, at most a hundred a
// second. gRPC offers this up to 1.64, protobuf up to 4.21; newer versions go on writing to
// standard error. gRPC's own variable GRPC_VERBOSITY says which severities it reports; without it,
// errors only.
// REQUIRES: called before gRPC starts a thread.
void LogLibraryLines();

// Ends every call and watcher that is still open on the server at once.
void CancelAllCalls(grpc::Server& server);

// Closes the ports, and has each connection say goodbye: its client begins no more calls on it, and
// it closes once those that have begun are over. The server takes them as before, while
// grpc::Server::Shutdown cancels every call that reaches it before its client has heard of the
// goodbye. Does nothing but with gRPC 1.51, where it has been tried.
void SayGoodbye(grpc::Server& server);

// Reads one message of a call: what a ServerAsyncReaderWriter does, at half its cost.
class MessageRead final : public grpc::internal::CompletionQueueTag {
 public:
  // The call has arrived. `tag` completes in its queue, with false where no message comes.
  void Start(grpc::ServerContext& context, void* tag);
  grpc::ByteBuffer& message() { return message_; }

 private:
  bool FinalizeResult(void** tag, bool* status) override;

  grpc::ByteBuffer message_;
  void* tag_ = nullptr;
};

// Holds a call, so that any thread can end it, also when its context is gone.
class HeldCall {
 public:
  // REQUIRES: the call has arrived.
  explicit HeldCall(grpc::ServerContext& context);
  HeldCall(HeldCall&& from) noexcept : call_(from.call_) { from.call_ = nullptr; }
  HeldCall& operator=(HeldCall&&) = delete;
  ~HeldCall();
  // The client gets this status, without trailers of ours; the call's operations fail. Does nothing
  // to a call that is over.
  void End(grpc::StatusCode code, const std::string& message);

 private:
  grpc_call* call_;
};

// A service whose methods carry raw messages, without generated code.
class RawService : public grpc::Service {
 public:
  // Asks gRPC for a call of the method, as the functions of generated services do.
  template <typename Method>
  auto Of(Method method) {
    return [this, method](auto... arguments) {
      this->RequestAsyncBidiStreaming(static_cast<int>(method), arguments...);
    };
  }

  // The first method has index 0, the next 1. `path` is "/package.Service/Method". gRPC sees all of
  // them as streams, unary ones too: on the wire both are the same, and gRPC shows a stream from
  // its headers on.
  void AddRawMethod(const char* path);

 private:
  int methods_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_GRPC_INTERNALS_H_
