// Converts gRPC's statuses and the service's error details to absl::Status, and checks replies.
// Thread-safe: no state.
#ifndef HISTOGRAM_CLIENT_STATUS_H_
#define HISTOGRAM_CLIENT_STATUS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>

#include "absl/status/status.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::client {

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

#endif  // HISTOGRAM_CLIENT_STATUS_H_
