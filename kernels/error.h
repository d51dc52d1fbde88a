// Errors that name the field, the value and the limit, carried by absl::Status across modules.
//
// A status made here holds, beside its code and message, the parts that the API's error details
// (histogram.v1.Error) repeat in machine-readable form. Thread-safe: plain values, no state.
#ifndef HISTOGRAM_KERNELS_ERROR_H_
#define HISTOGRAM_KERNELS_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace histogram {

struct ErrorDetail {
  std::string reason = {};  // stable, in capitals: BAD_BINNING, PAYLOAD_TOO_LARGE, QUEUE_FULL ...
  std::string field =
      {};              // path of the offending field, "spec.binning.even.bin_count"; may be empty
  uint64_t limit = 0;  // the limit that was passed; 0 where there is none
  std::optional<uint32_t> retry_after_ms = {};

  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
};

// A status with `detail` attached. REQUIRES: code is not kOk.
absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorDetail& detail);

// The detail attached to `status`; all parts empty where it carries none.
ErrorDetail GetErrorDetail(const absl::Status& status);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_ERROR_H_
