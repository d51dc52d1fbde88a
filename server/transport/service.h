// The four methods of histogram.v1.HistogramService. The three that carry payloads are taken raw:
// the bytes stay in gRPC's slices; Describe uses the generated messages.
#ifndef HISTOGRAM_SERVER_TRANSPORT_SERVICE_H_
#define HISTOGRAM_SERVER_TRANSPORT_SERVICE_H_

#include <functional>

#include "histogram/v1/histogram.grpc.pb.h"
#include "server/transport/accumulate.h"
#include "server/transport/compute.h"
#include "server/transport/compute_many.h"
#include "server/transport/service_context.h"

namespace histogram::server {

using HistogramServiceBase = v1::HistogramService::WithRawCallbackMethod_Compute<
    v1::HistogramService::WithRawCallbackMethod_ComputeMany<
        v1::HistogramService::WithRawCallbackMethod_Accumulate<
            v1::HistogramService::WithCallbackMethod_Describe<v1::HistogramService::Service>>>>;

// Thread-safe. `context` outlives the service.
class HistogramService final : public HistogramServiceBase {
 public:
  using DescribeFn = std::function<v1::DescribeResponse()>;
  HistogramService(ServiceContext& context, DescribeFn describe);

  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    return StartCompute(context_, call, request, response);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ComputeMany(
      grpc::CallbackServerContext* call) override {
    return StartComputeMany(context_, call);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Accumulate(
      grpc::CallbackServerContext* call) override {
    return StartAccumulate(context_, call);
  }
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* call,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;

 private:
  ServiceContext& context_;
  DescribeFn describe_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_TRANSPORT_SERVICE_H_
