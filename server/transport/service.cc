#include "server/transport/service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/transport/admission.h"
#include "server/transport/caller.h"

namespace histogram::server {
namespace {

using grpc::internal::MethodHandler;

// Passes calls on to `handler` and notes the queue of their callbacks, which gRPC's C++ interface
// tells nobody else.
class QueueNotingHandler final : public MethodHandler {
 public:
  QueueNotingHandler(std::unique_ptr<MethodHandler> handler, ServiceContext& context)
      : handler_(std::move(handler)), context_(context) {}

  void RunHandler(const HandlerParameter& param) override {
    context_.callback_queue.store(param.call->cq()->cq(), std::memory_order_relaxed);
    handler_->RunHandler(param);
  }
  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** data) override {
    return handler_->Deserialize(call, request, status, data);
  }

 private:
  const std::unique_ptr<MethodHandler> handler_;
  ServiceContext& context_;
};

int IndexOf(const char* method) {
  const auto* service =
      v1::DescribeRequest::descriptor()->file()->FindServiceByName("HistogramService");
  return service->FindMethodByName(method)->index();
}

}  // namespace

HistogramService::HistogramService(ServiceContext& context, DescribeFn describe)
    : context_(context), describe_(std::move(describe)) {
  auto handler =
      std::make_unique<grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>>(
          [this](grpc::CallbackServerContext* call) { return ComputeMany(call); });
  // The service owns the handler.
  MarkMethodRawCallback(IndexOf("ComputeMany"),
                        new QueueNotingHandler(std::move(handler), context));
}

grpc::ServerUnaryReactor* HistogramService::Describe(grpc::CallbackServerContext* call,
                                                     const v1::DescribeRequest* request,
                                                     v1::DescribeResponse* response) {
  const TimeNs begin = context_.clock.Now();
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  Caller caller;
  absl::Status status = IdentifyCaller(context_, *call, caller);
  const auto& unknown = v1::DescribeRequest::GetReflection()->GetUnknownFields(*request);
  if (!status.ok()) {
    ObserveRefusal(context_.observer, status);
  } else if (unknown.empty()) {
    *response = describe_();
  } else {
    const int number = unknown.field(0).number();
    status =
        MakeError(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("DescribeRequest: field number ", number,
                               " is unknown to this server, which refuses what it cannot answer"),
                  {.reason = "UNKNOWN_FIELD", .field = absl::StrCat("DescribeRequest.", number)});
    ObserveRefusal(context_.observer, status);
  }
  ReportCall(context_, caller, Method::kDescribe, status, 0,
             static_cast<uint64_t>(context_.clock.Now() - begin));
  EchoTrace(caller, *call);
  reactor->Finish(status.ok() ? grpc::Status::OK : FailCall(status, *call));
  return reactor;
}

}  // namespace histogram::server
