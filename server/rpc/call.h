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
  void Finished(bool) { Release(); }
  void Over(bool) {
    if (context_.IsCancelled()) OnCancel();
    Release();
  }

  EventLoop& loop_;
  grpc::ServerContext context_;
  CallGuard::Call memory_;
  MemberEvent<ServedCall, &ServedCall::Arrived> arrived_{*this};
  MemberEvent<ServedCall, &ServedCall::Finished> finished_{*this};
  MemberEvent<ServedCall, &ServedCall::Over> over_{*this};
  int holds_ = 2;  // until it is finished, and until it is over
};

// One message, one reply.
class UnaryCall : public ServedCall {
 protected:
  using ServedCall::ServedCall;

  // `ask` asks gRPC for a call of the method: a Request... function of a service.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &responder_, &loop().events(), &loop().events(), arrived_tag());
  }

  // Calls Receive, or else ReplyError.
  void OnHeaders() override { Receive(); }
  // The message is there; after Receive.
  virtual void OnMessage() = 0;
  // It will not come: the client cancelled, went away or sent none. Ends with ReplyError.
  virtual void OnNoMessage() {
    ReplyError({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"});
  }

  void Receive() {
    memory().Receiving();
    Hold();
    request_.Start(context(), read_.tag());
  }
  grpc::ByteBuffer& request() { return request_.message(); }
  // Exactly one of them is called, once. The object may be gone when it returns.
  void Reply(const grpc::ByteBuffer& reply) {
    responder_.Finish(reply, grpc::Status::OK, finished_tag());
  }
  void ReplyError(const grpc::Status& status) {
    responder_.FinishWithError(status, finished_tag());
  }

 private:
  void Read(bool ok) {
    memory().Received();
    ok ? OnMessage() : OnNoMessage();
    Release();
  }

  MessageRead request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_{&context()};
  MemberEvent<UnaryCall, &UnaryCall::Read> read_{*this};
};

// Messages both ways. At most one read, one write and one Finish are under way at a time, Finish
// not beside a write. gRPC calls none of them back from within.
class StreamCall : public ServedCall {
 protected:
  using ServedCall::ServedCall;

  // As UnaryCall::Await.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &stream_, &loop().events(), &loop().events(), arrived_tag());
  }

  // `ok` is false where no more messages come.
  virtual void OnReadDone(bool ok) = 0;
  // `ok` is false where the client is gone.
  virtual void OnWriteDone(bool ok) = 0;

  void StartRead(grpc::ByteBuffer* message) {
    memory().Receiving();
    Hold();
    stream_.Read(message, read_.tag());
  }
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options = {}) {
    Hold();
    stream_.Write(message, options, written_.tag());
  }
  // Once; no operation is begun after it.
  void Finish(const grpc::Status& status) { stream_.Finish(status, finished_tag()); }

 private:
  void Read(bool ok) {
    memory().Received();
    OnReadDone(ok);
    Release();
  }
  void Written(bool ok) {
    OnWriteDone(ok);
    Release();
  }

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context()};
  MemberEvent<StreamCall, &StreamCall::Read> read_{*this};
  MemberEvent<StreamCall, &StreamCall::Written> written_{*this};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_CALL_H_
