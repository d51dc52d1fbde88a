#include "server/service/caller.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

// Whether `text` is made of these characters.
bool IsOf(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

std::string_view MetadataValue(const grpc::ServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(key);
  return it == metadata.end() ? std::string_view()
                              : std::string_view(it->second.data(), it->second.size());
}

absl::Status CheckHeaders(const grpc::ServerContext& context) {
  constexpr uint64_t kEntryBytes = 32;  // as HTTP/2 counts a header list, RFC 9113, 6.5.2
  uint64_t bytes = 0;
  for (const auto& [name, value] : context.client_metadata()) {
    bytes += name.size() + value.size() + kEntryBytes;
  }
  if (bytes <= kHeaderBytesMax) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("headers: ", bytes, " bytes are more than the limit of ",
                                kHeaderBytesMax, "; send less metadata with the call"),
                   {.reason = "HEADERS_TOO_LARGE", .field = "headers", .limit = kHeaderBytesMax});
}

// Who has shown a certificate; 0: nobody.
uint64_t CertificateId(const grpc::ServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return 0;
  std::string identity;
  for (const grpc::string_ref& part : auth->GetPeerIdentity()) {
    identity.append(part.data(), part.size()).push_back('\0');
  }
  return identity.empty() ? 0 : absl::HashOf(identity);
}

absl::Status NoRoom(const char* what, uint64_t bytes, uint64_t held, uint64_t limit) {
  constexpr uint32_t kRetryAfterMs = 1000;
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("replies that clients have not read, and the totals of streams, take ", held,
                   " bytes of ", limit, "; ", what, " takes up to ", bytes),
      {.reason = "QUEUE_FULL", .limit = limit, .retry_after_ms = kRetryAfterMs});
}

}  // namespace

absl::Status Caller::Identify(const grpc::ServerContext& its_context) {
  peer = its_context.peer();
  if (!service.config.tls_client_ca.empty()) peer_id = CertificateId(its_context);
  if (const auto trace = MetadataValue(its_context, "traceparent"); IsTraceparent(trace)) {
    traceparent = trace;
  }
  if (absl::Status s = CheckHeaders(its_context); !s.ok()) return s;
  return CheckToken(its_context.client_metadata().count("authorization"),
                    MetadataValue(its_context, "authorization"));
}

absl::Status Caller::CheckToken(size_t headers, std::string_view value) {
  if (service.authenticator == nullptr) return absl::OkStatus();
  // A gateway in front may have looked at another one of several.
  if (headers > 1) {
    return MakeError(absl::StatusCode::kUnauthenticated,
                     "authorization: the header is there more than once; send it once",
                     {.reason = "UNAUTHENTICATED", .field = "authorization"});
  }
  auto found = service.authenticator->Authenticate(value);
  if (!found.ok()) return found.status();
  tenant = *std::move(found);
  peer_id = tenant->id();
  return absl::OkStatus();
}

uint64_t Caller::FairnessId() const { return peer_id != 0 ? peer_id : absl::HashOf(peer); }

void Caller::ChargeReply(uint64_t bytes) const {
  if (tenant == nullptr) return;
  tenant->ChargeReply(bytes, service.clock.Now());
  service.observer.TenantBytes(tenant->name(), bytes);
}

void Caller::Report(Method method, const absl::Status& status, uint64_t payload_bytes,
                    uint64_t duration_ns) const {
  service.observer.RequestFinished(
      {.method = method,
       .status = status,
       .payload_bytes = payload_bytes,
       .duration_ns = duration_ns,
       .traceparent = traceparent,
       .tenant = tenant == nullptr ? std::string_view() : tenant->name(),
       .peer = peer});
}

bool IsTraceparent(std::string_view value) {
  constexpr size_t kVersion = 2, kTrace = 32, kParent = 16, kFlags = 2;
  constexpr size_t kLength = kVersion + kTrace + kParent + kFlags + 3;
  if (value.size() != kLength || value[2] != '-' || value[35] != '-' || value[52] != '-') {
    return false;
  }
  return IsOf(value, "0123456789abcdef-") && std::count(value.begin(), value.end(), '-') == 3 &&
         value.substr(0, kVersion) != "ff" && !IsOf(value.substr(3, kTrace), "0") &&
         !IsOf(value.substr(36, kParent), "0");
}

absl::Status QuotaCharge::Take(const Caller& caller, uint64_t bytes) {
  if (caller.tenant == nullptr) return absl::OkStatus();
  absl::Status status = caller.tenant->Charge(bytes, caller.service.clock.Now());
  if (status.ok()) bytes_ = bytes;
  return status;
}

void QuotaCharge::GiveBack(const Caller& caller) {
  if (bytes_ > 0) caller.tenant->Refund(std::exchange(bytes_, 0));
}

void QuotaCharge::Accept(const Caller& caller) {
  if (bytes_ == 0) return;
  caller.service.observer.TenantBytes(caller.tenant->name(), std::exchange(bytes_, 0));
}

absl::Status HoldTotals(CallGuard::Call& call, uint64_t bytes) {
  if (bytes == 0 || call.HoldTotals(bytes)) return absl::OkStatus();
  return NoRoom("this stream's total", bytes, call.ledger().replies.bytes(),
                call.ledger().totals.limit());
}

absl::Status HoldReply(CallGuard::Call& call, uint64_t bytes) {
  if (call.Hold(bytes)) return absl::OkStatus();
  return NoRoom("this request's reply", bytes, call.ledger().replies.bytes(),
                2 * call.ledger().replies.limit());
}

absl::Status CancelledCall(const CallGuard::Call& receives) {
  if (receives.ended()) {
    return absl::ResourceExhaustedError(
        "ended while its message was received: the server holds too many unfinished messages");
  }
  return absl::CancelledError(
      "the client cancelled the call or went away, its deadline passed, or a message was over "
      "gRPC's own maximum");
}

absl::Status NoMessage(const grpc::ServerContext& context, const CallGuard::Call& receives) {
  if (receives.ended() || context.IsCancelled()) return CancelledCall(receives);
  return MakeError(absl::StatusCode::kInvalidArgument, "the call has no message",
                   {.reason = "MALFORMED_MESSAGE", .field = "message"});
}

}  // namespace histogram::server
