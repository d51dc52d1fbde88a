// Between the API's messages and what gRPC takes and gives. The names of the methods that count,
// and their requests as byte buffers that refer to their payload instead of copying it: the bytes
// are those of the generated classes; a test compares them. Statuses and error details as
// absl::Status, and the check of replies. Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_CODEC_H_
#define HISTOGRAM_CLIENT_CODEC_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
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

// REQUIRES: the call of `context` has finished.
absl::Status ToStatus(const grpc::Status& status, const grpc::ClientContext& context);

// The error of one payload of ComputeMany. Never OK.
absl::Status ToStatus(const v1::Error& error);

// The bytes of one sample of the spec's type.
uint64_t SampleBytes(const v1::Spec& spec);

// INTERNAL unless the histogram has the payload's number of samples, and its counts, or those of
// each row, add up to it. If the spec omits the counts, their sum is not checked.
absl::Status CheckReply(const v1::Spec& spec, const v1::Histogram& histogram,
                        const v1::RowAnswers& rows, uint64_t payload_bytes);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CODEC_H_
