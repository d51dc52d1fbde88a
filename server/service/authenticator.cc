#include "server/service/authenticator.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/error.h"
#include "server/base/read_file.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr size_t kTokenBytesMin = 16;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && absl::c_all_of(name, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::Status Unauthenticated(const char* why) {
  return MakeError(absl::StatusCode::kUnauthenticated,
                   absl::StrCat("authorization: ", why, "; send 'authorization: Bearer TOKEN'"),
                   {.reason = "UNAUTHENTICATED", .field = "authorization"});
}

}  // namespace

Tenant::Tenant(std::string name, uint64_t bytes_per_second, uint64_t burst_bytes)
    : name_(std::move(name)),
      id_(absl::HashOf(name_)),
      bytes_per_second_(bytes_per_second),
      burst_bytes_(std::max(bytes_per_second, burst_bytes)),
      budget_(static_cast<double>(burst_bytes_)) {}

absl::Status Tenant::Charge(uint64_t bytes, TimeNs now) {
  if (bytes_per_second_ == 0) return absl::OkStatus();
  const auto rate = static_cast<double>(bytes_per_second_);
  absl::MutexLock lock(&mu_);
  FillLocked(now);
  const double missing = static_cast<double>(bytes) - budget_;
  if (missing <= 0) {
    budget_ -= static_cast<double>(bytes);
    return absl::OkStatus();
  }
  constexpr double kWaitMsMax = 60000;
  const double wait_ms = std::min(kWaitMsMax, std::ceil(missing / rate * 1e3));
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("payload: ", bytes,
                                " bytes are more than what is left of your token's quota of ",
                                bytes_per_second_, bytes_per_second_ == 1 ? " byte" : " bytes",
                                " a second, replies included; come again in ", wait_ms / 1e3, " s"),
                   {.reason = "QUOTA_EXCEEDED",
                    .field = "payload",
                    .limit = bytes_per_second_,
                    .retry_after_ms = static_cast<uint32_t>(wait_ms)});
}

void Tenant::FillLocked(TimeNs now) {
  if (filled_at_ != 0 && now > filled_at_) {
    budget_ += static_cast<double>(bytes_per_second_) * static_cast<double>(now - filled_at_) / 1e9;
  }
  budget_ = std::min(budget_, static_cast<double>(burst_bytes_));
  filled_at_ = now;
}

void Tenant::Refund(uint64_t bytes) {
  if (bytes_per_second_ == 0) return;
  absl::MutexLock lock(&mu_);
  budget_ += static_cast<double>(bytes);
}

void Tenant::ChargeReply(uint64_t bytes, TimeNs now) {
  if (bytes_per_second_ == 0) return;
  absl::MutexLock lock(&mu_);
  FillLocked(now);
  budget_ -= static_cast<double>(bytes);
}

Authenticator::Digest Authenticator::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const uint8_t*>(token.data()), token.size(), digest.data());
  return digest;
}

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Load(const std::string& file,
                                                                   uint64_t burst_bytes) {
  std::unique_ptr<Authenticator> authenticator(new Authenticator(file, burst_bytes));
  if (absl::Status status = authenticator->Reload().status(); !status.ok()) return status;
  return authenticator;
}

absl::StatusOr<Authenticator::Tenants> Authenticator::Parse(const std::string& text,
                                                            const Tenants& before) const {
  Tenants tenants;
  std::map<std::string, std::shared_ptr<Tenant>> by_name, by_name_before;
  for (const auto& [digest, tenant] : before) by_name_before[tenant->name()] = tenant;
  int number = 0;
  const auto error = [&](const absl::AlphaNum& what) {
    return absl::InvalidArgumentError(absl::StrCat(file_, ", line ", number, ": ", what));
  };
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(line), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    // A word that begins with # begins a comment, which ends with the line.
    words.erase(absl::c_find_if(words, [](const auto& word) { return word[0] == '#'; }),
                words.end());
    if (words.empty()) continue;
    uint64_t bytes_per_second = 0;
    if (words.size() < 2 || words.size() > 3) {
      return error("expected NAME TOKEN [BYTES_PER_SECOND]");
    }
    if (!IsName(words[0])) return error("a name is 1 to 64 letters, digits, '-', '_' or '.'");
    if (words[1].size() < kTokenBytesMin) return error("a token has 16 characters or more");
    if (!absl::c_all_of(words[1], absl::ascii_isgraph)) {
      return error("a token is made of visible ASCII characters");
    }
    if (words.size() == 3 &&
        (!absl::SimpleAtoi(words[2], &bytes_per_second) || bytes_per_second == 0)) {
      return error("bytes per second is a whole number above 0");
    }
    std::shared_ptr<Tenant>& tenant = by_name[words[0]];
    if (tenant == nullptr) {
      if (by_name.size() > kTenantsMax)
        return error(absl::StrCat("there are more than ", kTenantsMax, " tenants"));
      tenant = by_name_before[words[0]];
      if (tenant == nullptr || tenant->bytes_per_second() != bytes_per_second) {
        tenant = std::make_shared<Tenant>(words[0], bytes_per_second, burst_bytes_);
      }
    } else if (tenant->bytes_per_second() != bytes_per_second) {
      return error("this tenant has another quota on an earlier line");
    }
    if (!tenants.emplace(DigestOf(words[1]), tenant).second)
      return error("this token is given twice");
  }
  if (tenants.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": there is no token in it"));
  }
  return tenants;
}

absl::StatusOr<bool> Authenticator::Reload() {
  absl::StatusOr<std::string> text = ReadFile(file_);
  if (!text.ok()) return text.status();
  Tenants before;
  {
    absl::MutexLock lock(&mu_);
    if (*text == loaded_text_ && !tenants_.empty()) return false;
    before = tenants_;
  }
  absl::StatusOr<Tenants> parsed = Parse(*text, before);
  if (!parsed.ok()) return parsed.status();
  absl::MutexLock lock(&mu_);
  tenants_ = *std::move(parsed);
  loaded_text_ = *std::move(text);
  return true;
}

absl::StatusOr<std::shared_ptr<Tenant>> Authenticator::Authenticate(
    std::string_view authorization) const {
  constexpr absl::string_view kScheme = "bearer ";
  const absl::string_view value(authorization.data(), authorization.size());
  if (value.empty()) return Unauthenticated("there is none");
  if (!absl::StartsWithIgnoreCase(value, kScheme))
    return Unauthenticated("it is not a bearer token");
  const Digest digest = DigestOf(authorization.substr(kScheme.size()));
  absl::MutexLock lock(&mu_);
  const auto it = tenants_.find(digest);
  if (it == tenants_.end()) return Unauthenticated("the token is unknown or was revoked");
  return it->second;
}

}  // namespace histogram::server
