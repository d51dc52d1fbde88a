// Writes an answer as the bytes of a reply, directly into memory of the right size. The counts are
// not copied into a message object first. No gRPC here. Functions are thread-safe.
#ifndef HISTOGRAM_SERVER_REQUEST_ENCODE_H_
#define HISTOGRAM_SERVER_REQUEST_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/request/call.h"

namespace histogram::server {

// Measures a message, then writes it. Call size() first, then Write with as many bytes. The answer
// outlives it and does not change in between.
class ReplyEncoder {
 public:
  static ReplyEncoder ComputeResponse(const Answer& answer, bool omit_counts);
  static ReplyEncoder ComputeManyResponse(const Answer& answer, bool omit_counts,
                                          uint64_t request_id);
  static ReplyEncoder AccumulateResponse(const Answer& answer, bool omit_counts, bool final,
                                         uint64_t chunks);

  size_t size() const { return size_; }
  // Returns the end of the message: out + size().
  uint8_t* Write(uint8_t* out) const;

 private:
  enum class Kind : uint8_t { kCompute, kComputeMany, kAccumulate };
  ReplyEncoder(Kind kind, const Answer& answer, bool omit_counts);

  Kind kind_;
  const Answer& answer_;
  bool final_ = false;
  uint64_t request_id_ = 0;
  uint64_t chunks_ = 0;
  size_t counts_size_ = 0, bins_size_ = 0, rows_size_ = 0, statistics_size_ = 0,
         histogram_size_ = 0, receipt_size_ = 0;
  size_t response_size_ = 0;  // of the ComputeResponse in the message
  size_t size_ = 0;
};

// A serialized histogram.v1.Error for a status that is not OK: its code, message and ErrorDetail.
std::string EncodeError(const absl::Status& status);

// A serialized ComputeManyResponse with this error.
std::string EncodeComputeManyError(uint64_t request_id, const absl::Status& status);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_ENCODE_H_
