// The servers that ours is measured against: the same gRPC, listener options, malloc settings and
// reply length, and nothing else.
//
// The null sink never reads a payload and returns one prepared reply. The touch sink also makes
// exactly one inline pass over it: on the cpu the counting kernel that the library chooses, on a
// GPU gather, copy and kernel of the backend. Neither has a queue, metrics, receipts or validation.
// They are plain use of gRPC, by its callback interface; see queue_sink.h for the other ones.
#ifndef HISTOGRAM_BENCH_SERVICE_SINK_SERVICE_H_
#define HISTOGRAM_BENCH_SERVICE_SINK_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "histogram/v1/histogram.grpc.pb.h"
#include "kernels/batch.h"
#include "kernels/workload.h"

namespace histogram::bench {

// Counts the payload's fragments and calls `done` with the counts: inline on the cpu, from a lane's
// thread on a GPU. Empty for the null sink.
using Touch =
    std::function<void(absl::Span<const Fragment>, std::function<void(const ValueCounts&)>)>;

using SinkBase = v1::HistogramService::WithRawCallbackMethod_Compute<
    v1::HistogramService::WithRawCallbackMethod_ComputeMany<
        v1::HistogramService::WithRawCallbackMethod_Accumulate<v1::HistogramService::Service>>>;

// A reply to Compute, as long as ours.
grpc::ByteBuffer ComputeReply(const ValueCounts& counts, uint64_t samples);

// Thread-safe.
class SinkService final : public SinkBase {
 public:
  explicit SinkService(Touch touch);

  grpc::ServerUnaryReactor* Compute(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ComputeMany(
      grpc::CallbackServerContext* call) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Accumulate(
      grpc::CallbackServerContext* call) override;

 private:
  const Touch touch_;
  grpc::ByteBuffer compute_reply_;
};

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_SERVICE_SINK_SERVICE_H_
