#include "kernels/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace histogram {
namespace {

// The status payloads that hold the detail. Only this file reads or writes them.
constexpr char kReasonUrl[] = "histogram/Reason", kFieldUrl[] = "histogram/Field";
constexpr char kLimitUrl[] = "histogram/Limit", kRetryUrl[] = "histogram/RetryAfterMs";

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorDetail& detail) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kReasonUrl, absl::Cord(detail.reason));
  status.SetPayload(kFieldUrl, absl::Cord(detail.field));
  status.SetPayload(kLimitUrl, absl::Cord(absl::StrCat(detail.limit)));
  if (detail.retry_after_ms.has_value()) {
    status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(*detail.retry_after_ms)));
  }
  return status;
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  const auto part = [&status](const char* url) {
    const absl::optional<absl::Cord> payload = status.GetPayload(url);
    return payload.has_value() ? std::string(*payload) : std::string();
  };
  ErrorDetail detail = {.reason = part(kReasonUrl), .field = part(kFieldUrl)};
  if (!absl::SimpleAtoi(part(kLimitUrl), &detail.limit)) detail.limit = 0;
  uint32_t retry = 0;
  if (absl::SimpleAtoi(part(kRetryUrl), &retry)) detail.retry_after_ms = retry;
  return detail;
}

}  // namespace histogram
