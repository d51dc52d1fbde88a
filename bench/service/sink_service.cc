#include "bench/service/sink_service.h"

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/request/encode.h"
#include "server/service/grpc_bytes.h"

namespace histogram::bench {
namespace {

using server::Answer;
using server::EncodeMessage;
using server::ReplyEncoder;

// A reply as long as ours: 256 counts and a receipt with numbers of the usual size. Points at the
// counts.
Answer PreparedAnswer(const ValueCounts& counts, uint64_t samples) {
  Answer answer;
  answer.values = &counts;
  answer.histogram.samples = samples;
  answer.receipt.batch = {.backend = "cpu", .kernel = "scalar", .payloads = 1, .kernel_ns = 20000};
  answer.receipt.total_ns = 40000;
  return answer;
}

class SinkCall final : public grpc::ServerUnaryReactor {
 public:
  SinkCall(const Touch& touch, const grpc::ByteBuffer& prepared, const grpc::ByteBuffer* request,
           grpc::ByteBuffer* response) {
    if (!touch) {
      *response = prepared;
      Finish(grpc::Status::OK);
      return;
    }
    // gRPC made the request for this call alone, and does not look at it again.
    message_ = server::Receive(const_cast<grpc::ByteBuffer&>(*request));
    server::ParsedRequest& parsed = message_->parsed;
    if (!server::ParseComputeRequest(message_->fragments, parsed).ok()) {
      Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed"));
      return;
    }
    touch(parsed.payload, [this, response](const ValueCounts& counts) {
      grpc::ByteBuffer reply = ComputeReply(counts, message_->parsed.payload_bytes);
      response->Swap(&reply);
      Finish(grpc::Status::OK);
    });
  }
  void OnDone() override { delete this; }

 private:
  std::shared_ptr<server::ReceivedMessage> message_;
};

// Reads and answers (ComputeMany), or reads everything and answers once (Accumulate).
class SinkStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  SinkStream(const Touch& touch, bool accumulate) : touch_(touch), accumulate_(accumulate) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      absl::MutexLock lock(&mu_);
      no_more_reads_ = true;
      Advance();
      return;
    }
    auto message = server::Receive(incoming_);
    if (!touch_) return Answered(std::move(message), ValueCounts{});
    auto& parsed = message->parsed;
    const auto status = accumulate_ ? ParseAccumulateRequest(message->fragments, parsed)
                                    : ParseComputeManyRequest(message->fragments, parsed);
    if (!status.ok()) return Answered(std::move(message), ValueCounts{});
    {
      absl::MutexLock lock(&mu_);
      ++counting_;
    }
    // On a GPU several payloads of a stream are under way at once, as in ours.
    touch_(parsed.payload, [this, message](const ValueCounts& counts) {
      absl::MutexLock lock(&mu_);
      --counting_;
      Add(message, counts);
      Advance();
    });
    StartRead(&incoming_);
  }

  void OnWriteDone(bool) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    Advance();
  }
  void OnDone() override { delete this; }

 private:
  void Answered(std::shared_ptr<server::ReceivedMessage> message, const ValueCounts& counts) {
    {
      absl::MutexLock lock(&mu_);
      Add(message, counts);
      Advance();
    }
    StartRead(&incoming_);
  }

  void Add(const std::shared_ptr<server::ReceivedMessage>& message, const ValueCounts& counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!accumulate_) {
      // The null sink answers with ids in order of arrival, without looking at the message.
      const uint64_t id = touch_ ? message->parsed.request_id : next_id_++;
      const Answer answer = PreparedAnswer(counts, message->parsed.payload_bytes);
      PushReply(EncodeMessage(ReplyEncoder::ComputeManyResponse(answer, false, id)));
      return;
    }
    for (uint32_t v = 0; v < kByteValues; ++v) totals_[v] += counts[v];
    samples_ += message->parsed.payload_bytes;
    ++chunks_;
  }

  grpc::ByteBuffer AccumulateReply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Answer answer = PreparedAnswer(totals_, samples_);
    return EncodeMessage(ReplyEncoder::AccumulateResponse(answer, false, true, chunks_));
  }

  void PushReply(grpc::ByteBuffer reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    replies_.emplace_back().Swap(&reply);
  }

  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    // One answer for all chunks, once the last of them is counted.
    if (accumulate_ && no_more_reads_ && counting_ == 0 && !std::exchange(totals_sent_, true)) {
      PushReply(AccumulateReply());
    }
    if (!replies_.empty()) {
      outgoing_.Swap(&replies_.front());
      replies_.pop_front();
      writing_ = true;
      grpc::WriteOptions options;
      if (!replies_.empty()) options.set_buffer_hint();
      StartWrite(&outgoing_, options);
    } else if (no_more_reads_ && counting_ == 0) {
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
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t counting_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool no_more_reads_ ABSL_GUARDED_BY(mu_) = false;
  bool totals_sent_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

grpc::ByteBuffer ComputeReply(const ValueCounts& counts, uint64_t samples) {
  return EncodeMessage(ReplyEncoder::ComputeResponse(PreparedAnswer(counts, samples), false));
}

SinkService::SinkService(Touch touch)
    : touch_(std::move(touch)), compute_reply_(ComputeReply(ValueCounts{}, 65536)) {}

grpc::ServerUnaryReactor* SinkService::Compute(grpc::CallbackServerContext*,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return new SinkCall(touch_, compute_reply_, request, response);  // deletes itself in OnDone
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SinkService::ComputeMany(
    grpc::CallbackServerContext*) {
  return new SinkStream(touch_, /*accumulate=*/false);  // deletes itself in OnDone
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SinkService::Accumulate(
    grpc::CallbackServerContext*) {
  return new SinkStream(touch_, /*accumulate=*/true);  // deletes itself in OnDone
}

}  // namespace histogram::bench
