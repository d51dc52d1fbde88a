// Writes an answer as the bytes of a reply, directly into memory of the right size. The counts are
// not copied into a message object first. No gRPC here. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_ENCODE_H_
#define HISTOGRAM_SERVER_REQUEST_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/base/observer.h"
#include "server/request/answer.h"

namespace histogram::server {

// A reply of the method. The answer outlives it.
struct Reply {
  Method method;
  const Answer& answer;
  bool omit_counts = false;
  uint64_t number = 0;  // a ComputeMany's id, an Accumulate's chunks
  bool final = false;   // of an Accumulate
};
// Writes the reply to the memory that `allocate` gives for its bytes.
void EncodeReply(const Reply& reply, absl::FunctionRef<uint8_t*(size_t bytes)> allocate);

// A serialized histogram.v1.Error for a status that is not OK: its code, message and ErrorDetail.
std::string EncodeError(const absl::Status& status);

// A serialized ComputeManyResponse with this error.
std::string EncodeComputeManyError(uint64_t request_id, const absl::Status& status);

// ErrorInfo.domain of all errors of this service.
inline constexpr char kErrorDomain[] = "histogram.v1";

// A serialized google.rpc.Status, as gRPC libraries of all languages read it in the trailer
// `grpc-status-details-bin`: code, message and the parts of ErrorDetail that the status has.
// ErrorInfo has the reason, with field and limit as metadata. BadRequest names the field. RetryInfo
// has the time after which to retry.
//
// Encoded by hand: five small messages do not justify a dependency, and a second copy of
// google/rpc/*.proto aborts the process.
std::string EncodeStatusDetails(const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ENCODE_H_
