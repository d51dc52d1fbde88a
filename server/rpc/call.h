// The server's end of one call, unary or streaming, with raw messages. A call awaits its client in
// an event loop. All that happens to it comes through that loop. The loop's thread calls the
// functions named On..., and it alone calls the others: a call needs no lock.
#ifndef HISTOGRAM_SERVER_RPC_CALL_H_
#define HISTOGRAM_SERVER_RPC_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "server/rpc/call_guard.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/grpc_internals.h"

namespace histogram::server {

// The common part of both kinds. The object is made with new and belongs to itself: from Await on
// it lives until OnDone, or until the server is shut down if no client came.
class ServedCall {
 public:
  ServedCall(const ServedCall&) = delete;
  ServedCall& operator=(const ServedCall&) = delete;

 protected:
  explicit ServedCall(EventLoop& loop) : loop_(loop), memory_(loop.guarded()) {
    context_.AsyncNotifyWhenDone(over_.tag());
    loop.CallBegun();
  }
  virtual ~ServedCall() = default;

  // Awaits another call of the same method in the same loop, since this one has its client now.
  virtual void AwaitNext() = 0;
  // A client has called: its headers are there.
  virtual void OnHeaders() = 0;
  // The message that Receive has awaited is there. `ok` is false where none comes: the client has
  // sent all, cancelled, or went away.
  virtual void OnReceived(bool /*ok*/) {}
  // The client cancelled, went away, or its deadline passed. At most once; not after OnDone.
  virtual void OnCancel() {}
  // The call is over, and gRPC is done with all of it. The object goes next.
  virtual void OnDone() {}

  // The call does not end before Release: an operation of gRPC is under way, or work for the call
  // on another thread. The object may be gone when Release returns.
  void Hold() { ++holds_; }
  void Release() {
    if (--holds_ > 0) return;
    OnDone();
    End();
  }

  // Awaits a message; at most one at a time.
  void Receive() {
    memory_.Receiving();
    Hold();
    read_.Start(context_, read_done_.tag());
  }
  grpc::ByteBuffer& received() { return read_.message(); }

  grpc::ServerContext& context() { return context_; }
  EventLoop& loop() { return loop_; }
  CallGuard::Call& memory() { return memory_; }
  void* arrived_tag() { return arrived_.tag(); }
  void* finished_tag() { return finished_.tag(); }

 private:
  void Arrived(bool ok) {
    if (!ok) return End();
    AwaitNext();
    memory_.Join(context_);
    OnHeaders();
  }
  // The loop may go once it knows.
  void End() {
    EventLoop& loop = loop_;
    delete this;
    loop.CallEnded();
  }
  void Received(bool ok) {
    memory_.Received();
    OnReceived(ok);
    Release();
  }
  void Finished(bool) { Release(); }
  void Over(bool) {
    if (context_.IsCancelled()) OnCancel();
    Release();
  }

  EventLoop& loop_;
  grpc::ServerContext context_;
  CallGuard::Call memory_;
  MessageRead read_;
  MemberEvent<ServedCall, &ServedCall::Arrived> arrived_{*this};
  MemberEvent<ServedCall, &ServedCall::Received> read_done_{*this};
  MemberEvent<ServedCall, &ServedCall::Finished> finished_{*this};
  MemberEvent<ServedCall, &ServedCall::Over> over_{*this};
  int holds_ = 2;  // until it is finished, and until it is over
};

// One message, one reply.
class UnaryCall : public ServedCall {
 protected:
  using ServedCall::ServedCall;

  // `ask` asks gRPC for a call of the method: RawService::Of, or a Request... function of a
  // generated service.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &responder_, &loop().events(), &loop().events(), arrived_tag());
  }

  // Exactly one of them is called, once. The object may be gone when it returns.
  void Reply(const grpc::ByteBuffer& reply) {
    responder_.Finish(reply, grpc::Status::OK, finished_tag());
  }
  void ReplyError(const grpc::Status& status) {
    responder_.FinishWithError(status, finished_tag());
  }

 private:
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_{&context()};
};

// Messages both ways. At most one write and one Finish are under way at a time, and not beside each
// other. gRPC reports the end of none of them from within the function that begins it.
class StreamCall : public ServedCall {
 protected:
  using ServedCall::ServedCall;

  // As UnaryCall::Await.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &stream_, &loop().events(), &loop().events(), arrived_tag());
  }

  // `ok` is false where the client is gone.
  virtual void OnWriteDone(bool ok) = 0;

  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options = {}) {
    Hold();
    stream_.Write(message, options, written_.tag());
  }
  // Once; no operation is begun after it.
  void Finish(const grpc::Status& status) { stream_.Finish(status, finished_tag()); }

 private:
  void Written(bool ok) {
    OnWriteDone(ok);
    Release();
  }

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context()};
  MemberEvent<StreamCall, &StreamCall::Written> written_{*this};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CALL_H_
