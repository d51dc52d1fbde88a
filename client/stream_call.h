// A bidirectional call without threads of its own. Keeps one read under way; the caller starts at
// most one write at a time. Not thread-safe.
#ifndef HISTOGRAM_CLIENT_STREAM_CALL_H_
#define HISTOGRAM_CLIENT_STREAM_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <histogram/client.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "client/codec.h"
#include "histogram/v1/histogram.grpc.pb.h"  // for its serialization traits

namespace histogram::client {

template <typename Response>
class StreamCall {
 public:
  enum class Event { kRead, kWritten, kEnded };

  // `impl`: the Client's. `deadline`: of the whole call.
  StreamCall(const auto& impl, const std::string& method, const CallOptions& options,
             absl::Time deadline)
      : stub_(impl.channels.calls) {
    PrepareCall(impl.options, options, deadline, context_);
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    call_->Read(&next_response_, &read_tag_);
  }

  // Cancels the call if it has not finished.
  ~StreamCall() {
    if (finished_) return;
    context_.TryCancel();
    (void)Finish();
  }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  // Whether the next write may start. Never again after WritesDone, or once gRPC takes no more.
  bool MayWrite() const { return !writing_ && !writes_done_; }
  // REQUIRES: MayWrite().
  void Write(const grpc::ByteBuffer& request) {
    writing_ = true;
    call_->Write(request, &write_tag_);
  }
  void WritesDone() {
    writing_ = writes_done_ = true;
    call_->WritesDone(&write_tag_);
  }
  bool writes_done() const { return writes_done_; }

  // kRead: a response came, which response() is until the next one. kWritten: gRPC has taken the
  // request. kEnded: no more responses come; call Finish.
  Event Wait() {
    std::optional<Event> event;
    void* tag = nullptr;
    bool ok = false;
    while (!event.has_value() && queue_.Next(&tag, &ok)) event = Take(tag, ok);
    return *event;
  }
  // The same without waiting: nullopt if nothing has come.
  std::optional<Event> Poll() {
    // An operation that ended at once has left a wake-up behind, for which gRPC's first look does
    // not ask the connection.
    for (int looks = 0; looks < 2; ++looks) {
      void* tag = nullptr;
      bool ok = false;
      const auto got = queue_.AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
      if (got == grpc::CompletionQueue::GOT_EVENT) return Take(tag, ok);
    }
    return std::nullopt;
  }
  Response& response() { return response_; }

  // Waits for started operations and the status. REQUIRES: Wait returned kEnded, or the call was
  // cancelled.
  absl::Status Finish() {
    finished_ = true;
    grpc::Status status;
    call_->Finish(&status, nullptr);
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
    return ToStatus(status, context_);
  }

 private:
  // nullopt for a refused write: there is more to read.
  std::optional<Event> Take(const void* tag, bool ok) {
    if (tag == &write_tag_) {
      writing_ = !ok;  // for ever: gRPC takes no more
      return ok ? std::optional(Event::kWritten) : std::nullopt;
    }
    if (!ok) return Event::kEnded;
    response_.Swap(&next_response_);
    call_->Read(&next_response_, &read_tag_);
    return Event::kRead;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, Response> stub_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, Response>> call_;
  Response response_, next_response_;
  // Tags: only their addresses matter.
  char read_tag_ = 0;
  char write_tag_ = 0;
  bool writing_ = false;
  bool writes_done_ = false;
  bool finished_ = false;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_STREAM_CALL_H_
