// Values of settings as text: parsed strictly, formatted for people. Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_VALUES_H_
#define HISTOGRAM_SERVER_CONFIG_VALUES_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace histogram::server {

// INVALID_ARGUMENT with the parts joined.
template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Each parser answers INVALID_ARGUMENT with the rest of a sentence that starts with the setting's
// name: "must be a number of bytes such as 65536, 64KiB or 1GiB, not '12 parsecs'".

// Digits alone, or with B, KiB, MiB, GiB or TiB (any case). 64 bits.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// Microseconds: decimal numbers with us, ms, s, m (min) or h, such as 1.5s or 1h30m; 0 needs no
// unit.
absl::StatusOr<uint64_t> ParseDuration(absl::string_view text);
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);
// A finite decimal number.
absl::StatusOr<double> ParseNumber(absl::string_view text);
// true, false, on, off, yes, no, 1, 0 (any case).
absl::StatusOr<bool> ParseBool(absl::string_view text);

// These write what the parsers read.
std::string FormatBytes(uint64_t bytes);            // "64MiB", "1000B"
std::string FormatDuration(uint64_t microseconds);  // "3s", "1.5ms", "30m", "0"

// Where a server listens.
struct Address {
  bool is_unix = false;
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: any free one
  std::string path;   // of a unix socket

  // Whether it is reached from this machine only.
  bool IsLocal() const;
  // True where both cannot be bound at the same time: the same path, or the same fixed port of the
  // same host or of a wildcard.
  bool Overlaps(const Address& other) const;
};
// HOST:PORT, [V6]:PORT or unix:PATH.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// As connect and bind take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
// The places that an address means, at least one: a name may have several. UNAVAILABLE with the
// system's reason for a name that is not known.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const Address& address);

// The candidate that `name` most likely meant; empty when none is near.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_VALUES_H_
