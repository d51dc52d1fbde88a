// Errors that name the field, the value and the limit, as an absl::Status.
//
// A status made here holds a code, a message and an ErrorDetail. The API repeats the detail in
// machine-readable form (histogram.v1.Error). Thread-safe: the functions have no state.
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
  std::string field = {};   // the field at fault, "spec.binning.even.bin_count"; may be empty
  uint64_t limit = 0;       // the limit that the value breaks; 0: none
  std::optional<uint32_t> retry_after_ms = {};

  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
};

// A status with `detail` attached. REQUIRES: code is not kOk.
absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorDetail& detail);

// The detail attached to `status`; a default one if there is none.
ErrorDetail GetErrorDetail(const absl::Status& status);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_ERROR_H_
