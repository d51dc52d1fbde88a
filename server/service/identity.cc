#include "server/service/identity.h"

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

}  // namespace

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

absl::Status IdentifyCaller(const ServiceContext& service, const grpc::ServerContext& context,
                            Caller& caller) {
  caller.context = &context;
  caller.peer = context.peer();
  if (const std::string_view trace = MetadataValue(context, "traceparent"); IsTraceparent(trace)) {
    caller.traceparent = trace;
  }
  if (absl::Status s = CheckHeaders(context); !s.ok()) return s;
  return CheckToken(service, context.client_metadata().count("authorization"),
                    MetadataValue(context, "authorization"), caller);
}

absl::Status CheckToken(const ServiceContext& service, size_t headers, std::string_view value,
                        Caller& caller) {
  if (service.authenticator == nullptr) return absl::OkStatus();
  // A gateway in front may have looked at another one of several.
  if (headers > 1) {
    return MakeError(absl::StatusCode::kUnauthenticated,
                     "authorization: the header is there more than once; send it once",
                     {.reason = "UNAUTHENTICATED", .field = "authorization"});
  }
  auto tenant = service.authenticator->Authenticate(value);
  if (!tenant.ok()) return tenant.status();
  caller.tenant = *std::move(tenant);
  return absl::OkStatus();
}

uint64_t FairnessId(const ServiceContext& service, const Caller& caller) {
  const uint64_t id = PeerId(service, caller);
  return id != 0 ? id : absl::HashOf(caller.peer);
}

uint64_t PeerId(const ServiceContext& service, const Caller& caller) {
  if (caller.tenant != nullptr) return caller.tenant->id();
  if (service.config.tls_client_ca.empty() || caller.context == nullptr) return 0;
  const std::shared_ptr<const grpc::AuthContext> auth = caller.context->auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return 0;
  std::string identity;
  for (const grpc::string_ref& part : auth->GetPeerIdentity()) {
    identity.append(part.data(), part.size()).push_back('\0');
  }
  return identity.empty() ? 0 : absl::HashOf(identity);
}

}  // namespace histogram::server
