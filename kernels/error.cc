#include "kernels/error.h"

#include <charconv>
#include <cstddef>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace histogram {
namespace {

// The status payload that holds the detail: "LIMIT RETRY REASON_LENGTH\nREASONFIELD", with '-' for
// an absent RETRY. Only this file reads or writes it.
constexpr char kDetailUrl[] = "histogram/ErrorDetail";

template <typename Number>
bool TakeNumber(std::string_view& text, char end, Number& number) {
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || next == text.data() + text.size() || *next != end) return false;
  text.remove_prefix(static_cast<size_t>(next - text.data()) + 1);
  return true;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view message, const ErrorDetail& detail) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  const std::string retry =
      detail.retry_after_ms.has_value() ? absl::StrCat(*detail.retry_after_ms) : "-";
  status.SetPayload(
      kDetailUrl, absl::Cord(absl::StrCat(detail.limit, " ", retry, " ", detail.reason.size(), "\n",
                                          detail.reason, detail.field)));
  return status;
}

ErrorDetail GetErrorDetail(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kDetailUrl);
  if (!payload.has_value()) return {};
  const std::string flat(*payload);
  std::string_view text = flat;

  ErrorDetail detail;
  if (!TakeNumber(text, ' ', detail.limit)) return {};
  if (text.substr(0, 2) == "- ") {
    text.remove_prefix(2);
  } else {
    uint32_t retry = 0;
    if (!TakeNumber(text, ' ', retry)) return {};
    detail.retry_after_ms = retry;
  }
  size_t reason_size = 0;
  if (!TakeNumber(text, '\n', reason_size) || reason_size > text.size()) return {};
  detail.reason = text.substr(0, reason_size);
  detail.field = text.substr(reason_size);
  return detail;
}

}  // namespace histogram
