// A bidirectional call without threads of its own. The caller starts at most one read and one write
// at a time, and waits for either. Owns its completion queue. The caller owns the context, which
// outlives this object. Not thread-safe.
#ifndef HISTOGRAM_CLIENT_STREAM_CALL_H_
#define HISTOGRAM_CLIENT_STREAM_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "histogram/v1/histogram.grpc.pb.h"  // for its serialization traits

namespace histogram::client {

template <typename Response>
class StreamCall {
 public:
  enum class Event { kRead, kWritten, kEnded, kWriteRefused };

  StreamCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
             grpc::ClientContext* context)
      : context_(context), stub_(channel), call_(stub_.PrepareCall(context, method, &queue_)) {
    call_->StartCall(&start_tag_);
    Pull();
  }

  // Cancels the call if it has not finished.
  ~StreamCall() {
    if (!finished_) {
      context_->TryCancel();
      Finish();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  // REQUIRES: no read is under way. `response` lives until Wait returns kRead or kEnded, or Finish
  // returns.
  void Read(Response* response) {
    reading_ = true;
    call_->Read(response, &read_tag_);
  }
  // REQUIRES: !writing(); WritesDone was not called.
  void Write(const grpc::ByteBuffer& request) {
    writing_ = true;
    call_->Write(request, &write_tag_);
  }
  void WritesDone() {
    writing_ = true;
    call_->WritesDone(&write_tag_);
  }
  bool writing() const { return writing_; }

  // REQUIRES: a read or a write is under way.
  // kRead: a response came. kEnded: no more responses come; call Finish.
  // kWritten: gRPC has taken the request. kWriteRefused: it takes no more requests; go on reading.
  Event Wait() {
    const auto [tag, ok] = Pull();
    return Take(tag, ok);
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

  // Waits for started operations and the status. REQUIRES: Wait returned kEnded, or the call was
  // cancelled.
  grpc::Status Finish() {
    finished_ = true;
    grpc::Status status;
    call_->Finish(&status, &finish_tag_);
    bool finish_seen = false;
    while (!finish_seen || reading_ || writing_) {
      const void* const tag = Pull().first;
      if (tag == &finish_tag_) finish_seen = true;
      if (tag == &read_tag_) reading_ = false;
      if (tag == &write_tag_) writing_ = false;
    }
    return status;
  }

 private:
  Event Take(const void* tag, bool ok) {
    if (tag == &read_tag_) {
      reading_ = false;
      return ok ? Event::kRead : Event::kEnded;
    }
    writing_ = false;
    return ok ? Event::kWritten : Event::kWriteRefused;
  }
  // The next tag and whether its operation succeeded.
  std::pair<void*, bool> Pull() {
    std::pair<void*, bool> event = {nullptr, false};
    queue_.Next(&event.first, &event.second);
    return event;
  }

  grpc::ClientContext* const context_;
  grpc::CompletionQueue queue_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, Response> stub_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, Response>> call_;
  // Tags: only their addresses matter.
  char start_tag_ = 0;
  char read_tag_ = 0;
  char write_tag_ = 0;
  char finish_tag_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool finished_ = false;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_STREAM_CALL_H_
