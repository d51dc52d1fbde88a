// An error in the form that every language's gRPC library reads: google.rpc.Status with its details
// ErrorInfo, BadRequest and RetryInfo, which goes into the trailer `grpc-status-details-bin`.
//
// Encoded by hand: five small messages do not pay for a dependency, and a second copy of
// google/rpc/*.proto in one process aborts it. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_
#define HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_

#include <string>

#include "absl/status/status.h"

namespace histogram::server {

// ErrorInfo.domain of all errors of this service.
inline constexpr char kErrorDomain[] = "histogram.v1";

// A serialized google.rpc.Status: code and message, and as far as the status carries them (its
// ErrorDetail) the reason with field and limit as metadata, the field as a violation, and the time
// after which to come again.
std::string EncodeStatusDetails(const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_
