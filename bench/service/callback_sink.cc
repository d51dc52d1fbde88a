#include "bench/service/callback_sink.h"

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/service/grpc_bytes.h"

namespace histogram::bench {
namespace {

class UnarySink final : public grpc::ServerUnaryReactor {
 public:
  UnarySink(const Touch& touch, const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
    // gRPC made the request for this call alone, and does not look at it again.
    const auto message = server::TakeMessage(const_cast<grpc::ByteBuffer&>(*request));
    if (message == nullptr ||
        !ParseRequest(server::Method::kCompute, message->fragments, message->parsed).ok()) {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed"));
      return;
    }
    ValueCounts counts;
    touch(message->parsed.payload, counts);
    grpc::ByteBuffer reply = ComputeReply(counts, message->parsed.payload_bytes);
    response->Swap(&reply);
    Finish(grpc::Status::OK);
  }
  void OnDone() override { delete this; }
};

// Reads and answers (ComputeMany), or reads everything and answers once (Accumulate).
class StreamSink final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamSink(const Touch& touch, bool accumulate) : touch_(touch), accumulate_(accumulate) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      absl::MutexLock lock(&mu_);
      no_more_reads_ = true;
      if (accumulate_) {
        grpc::ByteBuffer reply = AccumulateReply(totals_, samples_, chunks_);
        replies_.emplace_back().Swap(&reply);
      }
      return Advance();
    }
    const auto message = server::TakeMessage(incoming_);
    if (message == nullptr) return Finish({grpc::StatusCode::INVALID_ARGUMENT, "malformed"});
    server::ParsedRequest& parsed = message->parsed;
    const auto method = accumulate_ ? server::Method::kAccumulate : server::Method::kComputeMany;
    const bool parses = ParseRequest(method, message->fragments, parsed).ok();
    if (!parses) return Finish({grpc::StatusCode::INVALID_ARGUMENT, "malformed"});
    ValueCounts counts;
    touch_(parsed.payload, counts);
    {
      absl::MutexLock lock(&mu_);
      if (accumulate_) {
        for (uint32_t v = 0; v < kByteValues; ++v) totals_[v] += counts[v];
        samples_ += parsed.payload_bytes;
        ++chunks_;
      } else {
        grpc::ByteBuffer reply = ComputeManyReply(counts, parsed.payload_bytes, parsed.request_id);
        replies_.emplace_back().Swap(&reply);
      }
      Advance();
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    Advance();
  }
  void OnDone() override { delete this; }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    if (!replies_.empty()) {
      outgoing_.Swap(&replies_.front());
      replies_.pop_front();
      writing_ = true;
      grpc::WriteOptions options;
      if (!replies_.empty()) options.set_buffer_hint();
      StartWrite(&outgoing_, options);
    } else if (no_more_reads_) {
      finished_ = true;
      Finish(grpc::Status::OK);
    }
  }

  const Touch& touch_;
  const bool accumulate_;
  grpc::ByteBuffer incoming_, outgoing_;
  absl::Mutex mu_;
  std::deque<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(mu_);
  ValueCounts totals_ ABSL_GUARDED_BY(mu_){};
  uint64_t samples_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t chunks_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool no_more_reads_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

CallbackSink::CallbackSink(Touch touch) : touch_(std::move(touch)) {}

grpc::ServerUnaryReactor* CallbackSink::Compute(grpc::CallbackServerContext*,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return new UnarySink(touch_, request, response);  // deletes itself in OnDone
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* CallbackSink::ComputeMany(
    grpc::CallbackServerContext*) {
  return new StreamSink(touch_, /*accumulate=*/false);  // deletes itself in OnDone
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* CallbackSink::Accumulate(
    grpc::CallbackServerContext*) {
  return new StreamSink(touch_, /*accumulate=*/true);  // deletes itself in OnDone
}

}  // namespace histogram::bench
