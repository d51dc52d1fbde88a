// The names of the methods that count, and their requests as gRPC byte buffers that refer to their
// payload instead of copying it. The bytes are those of the generated classes; a test compares
// them. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CODEC_H_
#define HISTOGRAM_CLIENT_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::client {

inline constexpr char kComputeMethod[] = "/histogram.v1.HistogramService/Compute";
inline constexpr char kComputeManyMethod[] = "/histogram.v1.HistogramService/ComputeMany";
inline constexpr char kAccumulateMethod[] = "/histogram.v1.HistogramService/Accumulate";

// A slice that owns `bytes` until gRPC releases the last reference.
grpc::Slice OwningSlice(std::string bytes);

// `spec` is a serialized v1::Spec.
grpc::ByteBuffer EncodeCompute(absl::string_view spec, const grpc::Slice& payload);
grpc::ByteBuffer EncodeComputeMany(uint64_t request_id, absl::string_view spec,
                                   const grpc::Slice& payload);
// `spec`: for the first message of a stream; nullptr for others.
grpc::ByteBuffer EncodeAccumulate(const v1::Spec* spec, bool snapshot, const grpc::Slice& chunk);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CODEC_H_
