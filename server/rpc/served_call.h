// The server's end of one call over gRPC's completion queues, unary or streaming, with raw
// messages. A call awaits its client in a queue; all that happens to it afterwards comes through
// that queue, and with it from the thread that serves it (CallQueues). The functions named On...
// are called back; those of one call may run on several threads at a time while its queue is lent.
#ifndef HISTOGRAM_SERVER_RPC_SERVED_CALL_H_
#define HISTOGRAM_SERVER_RPC_SERVED_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>

#include "server/rpc/call_queues.h"
#include "server/rpc/event.h"

namespace histogram::server {

// What both kinds have in common. The object belongs to itself: from Await on it lives until
// OnDone, or OnShutdown if no client came.
class ServedCall {
 public:
  ServedCall(const ServedCall&) = delete;
  ServedCall& operator=(const ServedCall&) = delete;

 protected:
  explicit ServedCall(CallQueue& queue) : queue_(queue) {
    context_.AsyncNotifyWhenDone(over_.tag());
    queue.CallBegun();
  }
  virtual ~ServedCall() = default;

  // Awaits another call of the same method in the same queue, since this one has its client now.
  virtual void AwaitNext() = 0;
  // A client has called.
  virtual void OnCall() = 0;
  // The client cancelled, went away, or its deadline passed. At most once; not after OnDone.
  virtual void OnCancel() = 0;
  // The call is over, and gRPC is done with all of it; ends the object.
  virtual void OnDone() = 0;
  // The server was shut down before a client called; ends the object.
  virtual void OnShutdown() = 0;

  // gRPC holds the call once more, for an operation that was begun.
  void Hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) End(&ServedCall::OnDone);
  }

  grpc::ServerContext& context() { return context_; }
  CallQueue& queue() { return queue_; }
  void* arrived_tag() { return arrived_.tag(); }
  void* finished_tag() { return finished_.tag(); }

 private:
  void Arrived(bool ok) {
    if (!ok) return End(&ServedCall::OnShutdown);
    AwaitNext();
    OnCall();
  }
  // The object is gone after it; the queue may go once it knows.
  void End(void (ServedCall::*how)()) {
    CallQueue& queue = queue_;
    (this->*how)();
    queue.CallEnded();
  }
  void Finished(bool) { Release(); }
  void Over(bool) {
    if (context_.IsCancelled()) OnCancel();
    Release();
  }

  CallQueue& queue_;
  grpc::ServerContext context_;
  MemberEvent<ServedCall, &ServedCall::Arrived> arrived_{*this};
  MemberEvent<ServedCall, &ServedCall::Finished> finished_{*this};
  MemberEvent<ServedCall, &ServedCall::Over> over_{*this};
  std::atomic<int> holds_{2};  // until it is finished, and until it is over
};

// Calls that are awaited in each queue: what can begin there before its thread sees the first of
// it. What is more begins in another queue, whose thread looks after the connection, too, from then
// on: so as many as a connection may have by default.
inline constexpr int kUnaryCallsAwaited = 128;

// One message, one reply. Made with new; deletes itself at its end.
class UnaryCall : public ServedCall {
 protected:
  explicit UnaryCall(CallQueue& queue) : ServedCall(queue) {}

  void OnCancel() override {}
  void OnDone() override { delete this; }
  void OnShutdown() override { delete this; }

  // `ask` asks gRPC for a call of the method: a Request... function of a service.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &request_, &responder_, &queue().events(), &queue().events(), arrived_tag());
  }

  grpc::ByteBuffer& request() { return request_; }
  // Exactly one of them is called, once, by any thread. The object may be gone when it returns.
  void Reply(const grpc::ByteBuffer& reply) {
    responder_.Finish(reply, grpc::Status::OK, finished_tag());
  }
  void ReplyError(const grpc::Status& status) {
    responder_.FinishWithError(status, finished_tag());
  }

 private:
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_{&context()};
};

// Messages both ways. At most one read, one write and one Finish are under way at a time, Finish
// not beside a write; they are begun by any thread, and none is called back from within.
class StreamCall : public ServedCall, private Posted {
 protected:
  explicit StreamCall(CallQueue& queue) : ServedCall(queue) {}

  // As UnaryCall::Await.
  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &stream_, &queue().events(), &queue().events(), arrived_tag());
  }

  // `ok` is false where no more messages come.
  virtual void OnReadDone(bool ok) = 0;
  // `ok` is false where the client is gone.
  virtual void OnWriteDone(bool ok) = 0;
  // What was posted is to be done now.
  virtual void OnPosted() {}

  // A thread that changes the stream from elsewhere leaves what follows from it to the thread of
  // the queue: under the stream's lock, and before Finish, it claims; if that is granted it posts,
  // without the lock. If not, OnPosted is about to come for an earlier claim.
  bool ClaimPost() {
    if (posted_.exchange(true, std::memory_order_relaxed)) return false;
    Hold();
    return true;
  }
  void PostClaimed() { queue().Post(*this); }

  void StartRead(grpc::ByteBuffer* message) {
    Hold();
    stream_.Read(message, read_.tag());
  }
  void StartWrite(const grpc::ByteBuffer& message, grpc::WriteOptions options = {}) {
    Hold();
    stream_.Write(message, options, written_.tag());
  }
  // Once; no operation is begun after it.
  void Finish(const grpc::Status& status) { stream_.Finish(status, finished_tag()); }

  // The event of every read.
  const Event* read_event() const { return &read_; }

 private:
  void Read(bool ok) {
    OnReadDone(ok);
    Release();
  }
  void Written(bool ok) {
    OnWriteDone(ok);
    Release();
  }
  void Run() override {
    // Before OnPosted takes the stream's lock: who is refused holds it, and is seen to.
    posted_.store(false, std::memory_order_relaxed);
    OnPosted();
    Release();
  }

  std::atomic<bool> posted_{false};
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context()};
  MemberEvent<StreamCall, &StreamCall::Read> read_{*this};
  MemberEvent<StreamCall, &StreamCall::Written> written_{*this};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_SERVED_CALL_H_
