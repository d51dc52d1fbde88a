#include <google/protobuf/util/json_util.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "forms/options.h"
#include "forms/report.h"
#include "kernels/error.h"
#include "server/request/codec.h"
#include "server/request/encode.h"
#include "server/service/http_port.h"

namespace histogram::server {
namespace {

using Json = nlohmann::ordered_json;

using Code = absl::StatusCode;

constexpr size_t kJsonFaultBytesMax = 256;  // a wrong value may be as long as the body

// As the Connect protocol maps them; 500 for all others.
constexpr std::pair<Code, unsigned> kStatuses[] = {
    {Code::kCancelled, 499},     {Code::kInvalidArgument, 400},  {Code::kDeadlineExceeded, 504},
    {Code::kNotFound, 404},      {Code::kPermissionDenied, 403}, {Code::kResourceExhausted, 429},
    {Code::kUnimplemented, 501}, {Code::kUnavailable, 503},      {Code::kUnauthenticated, 401}};

// Reasons that HTTP has a status of its own for.
constexpr std::pair<absl::string_view, unsigned> kReasons[] = {
    {"PAYLOAD_TOO_LARGE", 413},    {"QUOTA_EXCEEDED", 429},    {"COMPRESSED_MESSAGE", 415},
    {"BAD_CONTENT_TYPE", 415},     {"HEADERS_TOO_LARGE", 431}, {"LENGTH_REQUIRED", 411},
    {"METHOD_NOT_ALLOWED", 405},   {"REQUEST_TIMEOUT", 408},   {"EXPECTATION_FAILED", 417},
    {"VERSION_NOT_SUPPORTED", 505}};

std::string DumpSafely(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ProblemJson(const absl::Status& status, const ErrorDetail& detail, unsigned code) {
  const std::string message =
      absl::StrReplaceAll(ByOption(std::string(status.message()), "", /*parts=*/true),
                          {{"payload: ", "body: "},
                           {"chunk: ", "body, in its last part: "},
                           {"; send larger ones in chunks through Accumulate",
                            "; send larger ones in chunks through gRPC's Accumulate"}});
  Json json = {{"type", "about:blank"},
               {"title", detail.reason.empty() ? "ERROR" : detail.reason},
               {"status", code},
               {"detail", message},
               {"reason", detail.reason}};
  const std::string field = detail.field == "payload" || detail.field == "chunk"
                                ? "body"
                                : ByOption(detail.field, "", /*parts=*/false);
  if (!field.empty()) json["field"] = field;
  if (detail.limit > 0) json["limit"] = detail.limit;
  return DumpSafely(json) + "\n";
}

std::string ConnectJson(const absl::Status& status) {
  const std::string code = status.code() == Code::kCancelled
                               ? "canceled"
                               : absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
  std::string value = absl::Base64Escape(EncodeError(status));
  while (!value.empty() && value.back() == '=') value.pop_back();
  return DumpSafely({{"code", code},
                     {"message", std::string(status.message())},
                     {"details", {{{"type", "histogram.v1.Error"}, {"value", value}}}}});
}

// The name that a policy has for the text between `begin` and `end` in the page.
std::string HashOf(absl::string_view begin, absl::string_view end) {
  absl::string_view text = kPage;
  text.remove_prefix(text.find(begin) + begin.size());
  text = text.substr(0, text.find(end));
  std::array<char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(),
         reinterpret_cast<uint8_t*>(digest.data()));
  return absl::StrCat("'sha256-", absl::Base64Escape({digest.data(), digest.size()}), "'");
}

HttpReply ErrorReply(const absl::Status& status, HttpForm form) {
  const ErrorDetail detail = GetErrorDetail(status);
  const bool plain = form == HttpForm::kPlain;
  HttpReply reply = {.status = 500};
  for (const auto& [code, of_code] : kStatuses) {
    if (status.code() == code) reply.status = of_code;
  }
  if (plain && reply.status == 429) reply.status = 503;  // no fault of the client's, but for quotas
  for (const auto& [reason, of_reason] : kReasons) {
    if (detail.reason == reason && (plain || of_reason == 415)) reply.status = of_reason;
  }
  if (detail.reason == "COMPRESSED_MESSAGE") {
    reply.headers.emplace_back("Accept-Encoding", "identity");
  }
  if (detail.reason == "BAD_CONTENT_TYPE" && !plain) {
    reply.headers.emplace_back("Accept-Post", "application/proto, application/json");
  }
  if (reply.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (reply.status == 503 || detail.retry_after_ms.has_value()) {
    const uint32_t ms = detail.retry_after_ms.value_or(1000);
    reply.headers.emplace_back("Retry-After",
                               absl::StrCat(std::max<uint32_t>(1, (ms + 999) / 1000)));
  }
  reply.type = plain ? "application/problem+json" : "application/json";
  reply.body = plain ? ProblemJson(status, detail, reply.status) : ConnectJson(status);
  return reply;
}

}  // namespace

HttpReply MakeReply(absl::StatusOr<std::string> answer, HttpForm form) {
  if (!answer.ok()) return ErrorReply(answer.status(), form);
  return {.body = *std::move(answer),
          .type = form == HttpForm::kConnectProto ? "application/proto" : "application/json"};
}

absl::StatusOr<TimeNs> DeadlineOf(const HttpRequest& request) {
  const absl::string_view text = request.Header("connect-timeout-ms");
  if (text.empty()) return kNever;
  uint64_t ms = 0;
  if (text.size() > 10 || !absl::c_all_of(text, absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &ms)) {
    return InvalidField("BAD_HEADER", "Connect-Timeout-Ms",
                        "must be a whole number of at most ten digits");
  }
  return request.arrived_at + static_cast<TimeNs>(ms) * 1000000;
}

absl::Status JsonToMessage(const std::string& json, google::protobuf::Message& message) {
  const auto read = google::protobuf::util::JsonStringToMessage(json, &message);
  if (read.ok()) return absl::OkStatus();
  // The lines after the first show some of the body. No error shows payload bytes.
  const std::string text(read.message());
  const absl::string_view what =
      absl::StripPrefix(absl::string_view(text).substr(0, text.find('\n')), ": ");
  if (absl::StartsWith(what, "(payload")) {
    return InvalidField("MALFORMED_MESSAGE", "payload", "must be base64 in a string");
  }
  return MakeError(Code::kInvalidArgument,
                   absl::StrCat("the body is no ", message.GetDescriptor()->name(),
                                " in JSON: ", SafeText(what.substr(0, kJsonFaultBytesMax))),
                   {.reason = "MALFORMED_MESSAGE", .field = "message"});
}

absl::StatusOr<std::string> MessageToJson(const google::protobuf::Message& message) {
  std::string json;
  if (google::protobuf::util::MessageToJsonString(message, &json).ok()) return json;
  return absl::InternalError("the reply cannot be written as JSON");
}

HttpReply PageReply() {
  static const auto* const policy = new std::string(
      absl::StrCat("default-src 'self'; img-src data:; frame-ancestors 'none'; script-src ",
                   HashOf("<script>", "</script>"), "; style-src ", HashOf("<style>", "</style>")));
  return {.body = kPage,
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", *policy}}};
}

}  // namespace histogram::server
