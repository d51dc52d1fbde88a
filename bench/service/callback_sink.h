// The touch sink over gRPC's callback interface: "stock gRPC". See sinks.h for what a sink is.
#ifndef HISTOGRAM_BENCH_SERVICE_CALLBACK_SINK_H_
#define HISTOGRAM_BENCH_SERVICE_CALLBACK_SINK_H_

#include "bench/service/sinks.h"
#include "histogram/v1/histogram.grpc.pb.h"

namespace histogram::bench {

using CallbackSinkBase = v1::HistogramService::WithRawCallbackMethod_Compute<
    v1::HistogramService::WithRawCallbackMethod_ComputeMany<
        v1::HistogramService::WithRawCallbackMethod_Accumulate<v1::HistogramService::Service>>>;

// Thread-safe.
class CallbackSink final : public CallbackSinkBase {
 public:
  // REQUIRES: `touch` is not empty.
  explicit CallbackSink(Touch touch);

  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ComputeMany(
      grpc::CallbackServerContext* call) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Accumulate(
      grpc::CallbackServerContext* call) override;

 private:
  const Touch touch_;
};

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_SERVICE_CALLBACK_SINK_H_
