#include "bench/service/queue_sink.h"

#include <memory>
#include <utility>

#include "server/rpc/call.h"
#include "server/service/grpc_bytes.h"

namespace histogram::bench {
namespace {

class QueueSinkCall final : public server::UnaryCall {
 public:
  QueueSinkCall(QueueSink& sink, server::EventLoop& queue) : UnaryCall(queue), sink_(sink) {
    Await([&](auto... arguments) { sink.methods().RequestCompute(arguments...); });
  }

 private:
  void AwaitNext() override { new QueueSinkCall(sink_, queue()); }
  void OnCall() override {
    if (!sink_.touch()) return Reply(sink_.prepared());
    message_ = server::Receive(request());
    server::ParsedRequest& parsed = message_->parsed;
    if (!server::ParseComputeRequest(message_->fragments, parsed).ok()) {
      return ReplyError({grpc::StatusCode::INVALID_ARGUMENT, "malformed"});
    }
    sink_.touch()(parsed.payload, [this](const ValueCounts& counts) {
      Reply(ComputeReply(counts, message_->parsed.payload_bytes));
    });
  }

  QueueSink& sink_;
  std::shared_ptr<server::ReceivedMessage> message_;
};

}  // namespace

QueueSink::QueueSink(Touch touch, grpc::ServerBuilder& builder, uint32_t queues)
    : touch_(std::move(touch)),
      prepared_(ComputeReply(ValueCounts{}, 65536)),
      queues_(builder, queues) {
  builder.RegisterService(&methods_);
}

void QueueSink::Start() {
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    for (int k = 0; k < server::kUnaryCallsAwaited; ++k)
      new QueueSinkCall(*this, queues_[i]);  // delete themselves
  }
  queues_.Start();
}

}  // namespace histogram::bench
