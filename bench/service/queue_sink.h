// The sinks over completion queues with connections of their own, as our server has them: they
// differ only in our server's own work. See sinks.h for what a sink is.
#ifndef HISTOGRAM_BENCH_SERVICE_QUEUE_SINK_H_
#define HISTOGRAM_BENCH_SERVICE_QUEUE_SINK_H_

#include <grpcpp/server_builder.h>

#include <cstdint>

#include "bench/service/sinks.h"
#include "histogram/v1/histogram.grpc.pb.h"
#include "server/base/memory.h"
#include "server/rpc/call_guard.h"
#include "server/rpc/event_loop.h"

namespace histogram::bench {

// The methods as gRPC's asynchronous interface offers them to anybody, with raw messages.
using SinkMethods = v1::HistogramService::WithRawMethod_Compute<
    v1::HistogramService::WithRawMethod_ComputeMany<v1::HistogramService::WithRawMethod_Accumulate<
        v1::HistogramService::WithRawMethod_Describe<v1::HistogramService::Service>>>>;

// Thread-safe. Outlives the server; stop it when the server has been shut down.
class QueueSink {
 public:
  // Registers itself with `builder`, with so many queues. An empty `touch` makes the null sink.
  QueueSink(Touch touch, grpc::ServerBuilder& builder, uint32_t queues);

  // Begins to serve, once the server is built.
  void Start();
  void Stop() { loops_.Stop(); }

  SinkMethods& methods() { return methods_; }
  const Touch& touch() const { return touch_; }
  const grpc::ByteBuffer& prepared() const { return prepared_; }

 private:
  const Touch touch_;
  const grpc::ByteBuffer prepared_;
  SinkMethods methods_;
  server::MemoryLedger memory_{UINT64_MAX, [](uint64_t) { return uint64_t{0}; }};
  server::CallGuard guard_{memory_};  // ends nothing
  server::EventLoops loops_;
};

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_SERVICE_QUEUE_SINK_H_
