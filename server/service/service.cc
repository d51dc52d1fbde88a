#include "server/service/service.h"

#include <utility>

#include "server/request/admit.h"
#include "server/request/codec.h"
#include "server/rpc/call.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/caller.h"
#include "server/service/calls.h"
#include "server/service/grpc_bytes.h"

namespace histogram::server {
namespace {

class DescribeCall final : public UnaryCall {
 public:
  DescribeCall(HistogramService& service, EventLoop& loop) : UnaryCall(loop), service_(service) {
    Await([&](auto... arguments) { service.methods().Request(Methods::kDescribe, arguments...); });
  }

 private:
  void AwaitNext() override { new DescribeCall(service_, loop()); }

  void OnHeaders() override {
    const absl::Status status = IdentifyCaller(service_.context(), context(), caller_);
    if (!status.ok()) return Answer(status, service_.context().clock.Now());
    receives().SetPeer(PeerId(service_.context(), context(), caller_));
    Receive();
  }

  void OnMessage() override {
    const TimeNs begin = service_.context().clock.Now();
    Answer(CheckRequest(), begin);
  }

  void OnNoMessage() override {
    Answer(NoMessage(context(), receives()), service_.context().clock.Now());
  }

  // The object may be gone when it returns.
  void Answer(const absl::Status& status, TimeNs begin) {
    ServiceContext& shared = service_.context();
    if (!status.ok()) ObserveRefusal(shared.observer, status);
    ReportCall(shared, caller_, Method::kDescribe, status, 0,
               static_cast<uint64_t>(shared.clock.Now() - begin));
    if (!status.ok()) return ReplyError(FailCall(status, context()));
    Reply(EncodeMessage(service_.Describe().SerializeAsString()));
  }

  absl::Status CheckRequest() {
    if (IsCompressed(request())) return CompressedMessage();
    v1::DescribeRequest message;
    using Traits = grpc::SerializationTraits<v1::DescribeRequest>;
    if (request().Valid() && !Traits::Deserialize(&request(), &message).ok()) {
      return Malformed("DescribeRequest");
    }
    const auto& unknown = v1::DescribeRequest::GetReflection()->GetUnknownFields(message);
    if (unknown.empty()) return absl::OkStatus();
    return UnknownField("DescribeRequest", static_cast<uint32_t>(unknown.field(0).number()));
  }

  HistogramService& service_;
  Caller caller_;
};

}  // namespace

HistogramService::HistogramService(ServiceContext& context, DescribeFn describe)
    : context_(context), describe_(std::move(describe)) {}

void HistogramService::AwaitCalls(EventLoop& loop) {
  // As many of each as one connection may have open. A call that nothing awaits in its connection's
  // loop begins in another loop, which then looks after the connection, too, for good.
  for (uint32_t i = 0; i < context_.config.streams_max; ++i) {
    AwaitCompute(context_, methods_, loop);
    AwaitComputeMany(context_, methods_, loop);
    AwaitAccumulate(context_, methods_, loop);
  }
  new DescribeCall(*this, loop);  // deletes itself
}

}  // namespace histogram::server
