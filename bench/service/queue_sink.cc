#include "bench/service/queue_sink.h"

#include <grpcpp/support/async_unary_call.h>

#include <deque>
#include <memory>
#include <utility>

#include "server/rpc/call.h"
#include "server/service/grpc_bytes.h"

namespace histogram::bench {
namespace {

const ValueCounts kNothing{};

// One message, one reply, as gRPC's asynchronous interface has them: gRPC says nothing of the call
// before its message is whole.
class UnaryCall : public server::ServedCall {
 protected:
  using ServedCall::ServedCall;

  template <typename Ask>
  void Await(Ask&& ask) {
    ask(&context(), &request_, &responder_, &loop().events(), &loop().events(), arrived_tag());
  }
  grpc::ByteBuffer& request() { return request_; }
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

class UnarySink final : public UnaryCall {
 public:
  UnarySink(QueueSink& sink, server::EventLoop& loop) : UnaryCall(loop), sink_(sink) {
    Await([&](auto... arguments) { sink.methods().RequestCompute(arguments...); });
  }

 private:
  void AwaitNext() override { new UnarySink(sink_, loop()); }
  void OnHeaders() override {
    if (!sink_.touch()) return Reply(sink_.prepared());
    const auto message = server::TakeMessage(request());
    if (message == nullptr ||
        !ParseRequest(server::Method::kCompute, message->fragments, message->parsed).ok()) {
      return ReplyError({grpc::StatusCode::INVALID_ARGUMENT, "malformed"});
    }
    ValueCounts counts;
    sink_.touch()(message->parsed.payload, counts);
    Reply(ComputeReply(counts, message->parsed.payload_bytes));
  }

  QueueSink& sink_;
};

// Reads and answers (ComputeMany), or reads everything and answers once (Accumulate). All of a
// call's events come from the one thread of its queue: no lock is needed.
class StreamSink final : public server::StreamCall {
 public:
  StreamSink(QueueSink& sink, server::EventLoop& loop, bool accumulate)
      : StreamCall(loop), sink_(sink), accumulate_(accumulate) {
    Await([&](auto... arguments) {
      accumulate ? sink.methods().RequestAccumulate(arguments...)
                 : sink.methods().RequestComputeMany(arguments...);
    });
  }

 private:
  void AwaitNext() override { new StreamSink(sink_, loop(), accumulate_); }
  void OnHeaders() override { Receive(); }
  void OnCancel() override { gone_ = true; }

  void OnReceived(bool ok) override {
    if (finished_) return;
    if (!ok) {
      no_more_reads_ = true;
      if (accumulate_) Push(AccumulateReply(totals_, samples_, chunks_));
      return Advance();
    }
    std::shared_ptr<server::ReceivedMessage> message;
    if (sink_.touch()) {
      message = server::TakeMessage(received());
    } else {
      received().Clear();
    }
    // The next message may arrive while this one is counted.
    Receive();
    Take(message.get());
    Advance();
  }

  void OnWriteDone(bool ok) override {
    writing_ = false;
    if (!ok) gone_ = true;
    Advance();
  }

  // Counts the message; null for the null sink, which answers with ids in order of arrival.
  void Take(server::ReceivedMessage* message) {
    if (message == nullptr) {
      ++chunks_;
      if (!accumulate_) Push(ComputeManyReply(kNothing, 0, chunks_ - 1));
      return;
    }
    server::ParsedRequest& parsed = message->parsed;
    const auto method = accumulate_ ? server::Method::kAccumulate : server::Method::kComputeMany;
    const bool parses = ParseRequest(method, message->fragments, parsed).ok();
    if (!parses) return;  // then the answers are wrong, which the client notices
    ValueCounts counts;
    sink_.touch()(parsed.payload, counts);
    if (!accumulate_)
      return Push(ComputeManyReply(counts, parsed.payload_bytes, parsed.request_id));
    for (uint32_t v = 0; v < kByteValues; ++v) totals_[v] += counts[v];
    samples_ += parsed.payload_bytes;
    ++chunks_;
  }

  void Push(grpc::ByteBuffer reply) { replies_.emplace_back().Swap(&reply); }

  void Advance() {
    if (writing_ || finished_) return;
    if (!replies_.empty() && !gone_) {
      outgoing_.Swap(&replies_.front());
      replies_.pop_front();
      writing_ = true;
      grpc::WriteOptions options;
      if (!replies_.empty()) options.set_buffer_hint();
      StartWrite(outgoing_, options);
    } else if (no_more_reads_ || gone_) {
      finished_ = true;
      Finish(grpc::Status::OK);
    }
  }

  QueueSink& sink_;
  const bool accumulate_;
  grpc::ByteBuffer outgoing_;
  std::deque<grpc::ByteBuffer> replies_;
  ValueCounts totals_{};
  uint64_t samples_ = 0, chunks_ = 0;
  bool writing_ = false, no_more_reads_ = false, finished_ = false, gone_ = false;
};

// Refuses Describe, which sinks do not offer, rather than leave the call without an answer.
class DescribeSink final : public UnaryCall {
 public:
  DescribeSink(QueueSink& sink, server::EventLoop& loop) : UnaryCall(loop), sink_(sink) {
    Await([&](auto... arguments) { sink.methods().RequestDescribe(arguments...); });
  }

 private:
  void AwaitNext() override { new DescribeSink(sink_, loop()); }
  void OnHeaders() override { ReplyError({grpc::StatusCode::UNIMPLEMENTED, "this is a sink"}); }

  QueueSink& sink_;
};

}  // namespace

QueueSink::QueueSink(Touch touch, grpc::ServerBuilder& builder, uint32_t queues)
    : touch_(std::move(touch)),
      prepared_(ComputeReply(ValueCounts{}, 65536)),
      loops_(builder, queues, guard_) {
  builder.RegisterService(&methods_);
}

void QueueSink::Start() {
  constexpr int kUnaryCallsAwaited = 128, kStreamsAwaited = 16;
  for (uint32_t i = 0; i < loops_.size(); ++i) {
    // They delete themselves.
    for (int k = 0; k < kUnaryCallsAwaited; ++k) new UnarySink(*this, loops_[i]);
    for (int k = 0; k < kStreamsAwaited; ++k) {
      new StreamSink(*this, loops_[i], /*accumulate=*/false);
      new StreamSink(*this, loops_[i], /*accumulate=*/true);
    }
    new DescribeSink(*this, loops_[i]);
  }
  loops_.Start();
}

}  // namespace histogram::bench
