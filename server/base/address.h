// Addresses that a server listens on. Functions without state.
#ifndef HISTOGRAM_SERVER_BASE_ADDRESS_H_
#define HISTOGRAM_SERVER_BASE_ADDRESS_H_

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

inline absl::Status Wrong(absl::string_view expected, absl::string_view text) {
  return Invalid("must be ", expected, ", not '", text, "'");
}

// Where a server listens.
struct Address {
  bool is_unix = false;
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: any free one
  std::string path;   // of a unix socket

  // Whether it is reached from this machine only.
  bool IsLocal() const;
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
// "127.0.0.1:9464", "[::1]:9464".
std::string NumericAddress(const SocketAddress& address);
// Where a call comes from, as people write it: "192.0.2.1:40000", "[::1]:40000", "unix". `uri` is
// gRPC's way to write it: "ipv4:192.0.2.1:40000", "ipv6:%5B::1%5D:40000", "unix:/run/socket".
std::string PeerAddress(absl::string_view uri);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_ADDRESS_H_
