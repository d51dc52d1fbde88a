// Writes an answer as the bytes of a reply, directly into memory of the right size. The counts are
// not copied into a message object first. No gRPC here. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_ENCODE_H_
#define HISTOGRAM_SERVER_REQUEST_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/base/observer.h"
#include "server/request/answer.h"

namespace histogram::server {

// Measures a message, then writes it. Call size() first, then Write with as many bytes. The answer
// outlives it and does not change in between.
class ReplyEncoder {
 public:
  // A reply of the method. `number`: a ComputeMany's id, an Accumulate's chunks; `final` is of an
  // Accumulate, too.
  ReplyEncoder(Method method, const Answer& answer, bool omit_counts, uint64_t number = 0,
               bool final = false);

  size_t size() const { return size_; }
  // Returns the end of the message: out + size().
  uint8_t* Write(uint8_t* out) const;

 private:
  // Writes a part of the message, or measures it: `Out` is a wire::Writer or wire::Sizer.
  template <typename Out>
  void PutHistogram(Out& out) const;
  template <typename Out>
  void PutComputeResponse(Out& out) const;
  template <typename Out>
  void Put(Out& out) const;

  const Method method_;
  const Answer& answer_;
  const bool omit_counts_;
  const uint64_t number_;
  const bool final_;
  size_t histogram_size_ = 0, receipt_size_ = 0;
  size_t response_size_ = 0;  // of the ComputeResponse in a ComputeManyResponse
  size_t size_ = 0;
};

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
