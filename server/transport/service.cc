#include "server/transport/service.h"

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/transport/admission.h"
#include "server/transport/caller.h"

namespace histogram::server {

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
