// Bearer tokens: who may call, and how many bytes a second, payloads and replies together.
//
// The file holds one tenant a line: NAME TOKEN [BYTES_PER_SECOND]; '#' begins a comment. A name may
// stand on several lines, so that a token can be replaced without a gap. The file is read again
// when it changes; a file that has become unreadable or wrong leaves the former tokens in force.
// Tokens are kept and looked up as SHA-256 digests, so that the time of a look-up says nothing
// about a token. Thread-safe.
#ifndef HISTOGRAM_SERVER_SERVICE_AUTHENTICATOR_H_
#define HISTOGRAM_SERVER_SERVICE_AUTHENTICATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"

namespace histogram::server {

// One caller with its byte budget: a bucket that fills at the quota and holds one second of it, or
// one payload if that is more. Thread-safe.
class Tenant {
 public:
  Tenant(std::string name, uint64_t bytes_per_second, uint64_t burst_bytes);

  const std::string& name() const { return name_; }
  uint64_t id() const { return id_; }
  // 0: no quota.
  uint64_t bytes_per_second() const { return bytes_per_second_; }

  // Takes the bytes from the budget, or answers RESOURCE_EXHAUSTED (reason QUOTA_EXCEEDED, with the
  // time after which they will be there).
  absl::Status Charge(uint64_t bytes, TimeNs now);
  // Gives back what was charged for a request that was refused afterwards.
  void Refund(uint64_t bytes);
  // Takes the bytes of a reply that is made, even below zero. Then Charge refuses until the budget
  // has filled again.
  void ChargeReply(uint64_t bytes, TimeNs now);

 private:
  void FillLocked(TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_;
  const uint64_t id_;
  const uint64_t bytes_per_second_;
  const uint64_t burst_bytes_;
  absl::Mutex mu_;
  double budget_ ABSL_GUARDED_BY(mu_);
  TimeNs filled_at_ ABSL_GUARDED_BY(mu_) = 0;
};

class Authenticator {
 public:
  // INVALID_ARGUMENT naming the file and the line. `burst_bytes`: the largest payload.
  static absl::StatusOr<std::unique_ptr<Authenticator>> Load(const std::string& file,
                                                             uint64_t burst_bytes);

  // `authorization`: the metadata's value, "Bearer TOKEN". UNAUTHENTICATED (reason UNAUTHENTICATED)
  // for anything that names no tenant.
  absl::StatusOr<std::shared_ptr<Tenant>> Authenticate(std::string_view authorization) const;

  // Reads the file again if it has changed; true if it did. An error leaves everything as it was.
  absl::StatusOr<bool> Reload();

 private:
  using Digest = std::array<uint8_t, 32>;
  using Tenants = absl::flat_hash_map<Digest, std::shared_ptr<Tenant>>;

  Authenticator(std::string file, uint64_t burst_bytes)
      : file_(std::move(file)), burst_bytes_(burst_bytes) {}
  static Digest DigestOf(std::string_view token);
  // A tenant of `before` whose quota has not changed keeps what it has used.
  absl::StatusOr<Tenants> Parse(const std::string& text, const Tenants& before) const;

  const std::string file_;
  const uint64_t burst_bytes_;
  mutable absl::Mutex mu_;
  Tenants tenants_ ABSL_GUARDED_BY(mu_);
  std::string loaded_text_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_AUTHENTICATOR_H_
