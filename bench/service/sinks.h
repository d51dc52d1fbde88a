// The servers that ours is measured against: the same gRPC, listener options, malloc settings and
// reply length, and nothing else. No queue, no metrics, no receipts, no validation.
//
// The null sink never reads a payload and returns a prepared reply: what gRPC itself carries. The
// touch sink also makes exactly one inline pass over the payload, with the counting kernel that the
// library chooses for this processor: the least that a server can do that reads every byte.
//
// Both exist over completion queues with connections of their own (queue_sink.h), which is the
// strongest plain use of gRPC. The touch sink also exists over gRPC's callback interface
// (callback_sink.h), which is what gRPC's own examples use.
#ifndef HISTOGRAM_BENCH_SERVICE_SINKS_H_
#define HISTOGRAM_BENCH_SERVICE_SINKS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>

#include "absl/types/span.h"
#include "kernels/batch.h"
#include "kernels/workload.h"

namespace histogram::bench {

// Counts the payload's fragments into the counts, in place. Empty for the null sink. Thread-safe.
using Touch = std::function<void(absl::Span<const Fragment>, ValueCounts&)>;

// Replies as long as ours.
grpc::ByteBuffer ComputeReply(const ValueCounts& counts, uint64_t samples);
grpc::ByteBuffer ComputeManyReply(const ValueCounts& counts, uint64_t samples, uint64_t request_id);
grpc::ByteBuffer AccumulateReply(const ValueCounts& counts, uint64_t samples, uint64_t chunks);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_SERVICE_SINKS_H_
