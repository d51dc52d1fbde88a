// Encodes an error as gRPC libraries of all languages read it, for the trailer
// `grpc-status-details-bin`: google.rpc.Status with details ErrorInfo, BadRequest and RetryInfo.
//
// Encoded by hand: five small messages do not justify a dependency, and a second copy of
// google/rpc/*.proto aborts the process. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_
#define HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_

#include <string>

#include "absl/status/status.h"

namespace histogram::server {

// ErrorInfo.domain of all errors of this service.
inline constexpr char kErrorDomain[] = "histogram.v1";

// A serialized google.rpc.Status: code, message and the parts of ErrorDetail that the status has.
// ErrorInfo has the reason, with field and limit as metadata. BadRequest names the field. RetryInfo
// has the time after which to retry.
std::string EncodeStatusDetails(const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_STATUS_DETAILS_H_
