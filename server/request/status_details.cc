#include "server/request/status_details.h"

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/request/wire.h"

namespace histogram::server {
namespace {

// A string, bytes or message field.
std::string Field(uint32_t number, std::string_view content) {
  std::string head(1 + wire::VarintSize(content.size()), '\0');  // a tag of one byte: numbers to 15
  wire::Writer writer(reinterpret_cast<uint8_t*>(head.data()));
  writer.Length(number, content.size());
  return head.append(content);
}

std::string Number(uint32_t number, uint64_t value) {
  if (value == 0) return "";
  std::string text(1 + wire::VarintSize(value), '\0');
  wire::Writer writer(reinterpret_cast<uint8_t*>(text.data()));
  writer.VarintField(number, value);
  return text;
}

// Status.details, a google.protobuf.Any.
std::string Detail(std::string_view type, std::string_view message) {
  return Field(
      3, Field(1, std::string("type.googleapis.com/google.rpc.").append(type)) + Field(2, message));
}

// ErrorInfo.metadata, a map from string to string.
std::string Metadata(std::string_view key, std::string_view value) {
  return Field(3, Field(1, key) + Field(2, value));
}

}  // namespace

std::string EncodeStatusDetails(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  const std::string message(status.message());
  std::string out = Number(1, static_cast<uint64_t>(status.code())) + Field(2, message);
  if (!detail.reason.empty()) {
    std::string info = Field(1, detail.reason) + Field(2, kErrorDomain);
    if (!detail.field.empty()) info += Metadata("field", detail.field);
    if (detail.limit != 0) info += Metadata("limit", absl::StrCat(detail.limit));
    out += Detail("ErrorInfo", info);
  }
  if (!detail.field.empty()) {
    out += Detail("BadRequest", Field(1, Field(1, detail.field) + Field(2, message)));
  }
  if (detail.retry_after_ms.has_value()) {
    constexpr uint32_t kMsPerSecond = 1000, kNsPerMs = 1'000'000;
    const uint32_t ms = *detail.retry_after_ms;
    out += Detail("RetryInfo", Field(1, Number(1, ms / kMsPerSecond) +
                                            Number(2, ms % kMsPerSecond * uint64_t{kNsPerMs})));
  }
  return out;
}

}  // namespace histogram::server
