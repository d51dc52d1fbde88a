#include "server/base/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace histogram::server {
namespace {

constexpr char kForms[] = "HOST:PORT, [V6]:PORT or unix:PATH, with a port from 0 to 65535";

bool IsHost(const std::string& host, bool bracketed) {
  in6_addr six{};
  in_addr four{};
  if (bracketed) return inet_pton(AF_INET6, host.c_str(), &six) == 1;
  if (host.find_first_not_of("0123456789.") == std::string::npos) {
    return inet_pton(AF_INET, host.c_str(), &four) == 1;
  }
  return host.size() <= 253 && absl::c_all_of(host, [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
         });
}

}  // namespace

bool Address::IsLocal() const {
  in_addr four{};  // a name may begin with 127, too
  return is_unix || absl::EqualsIgnoreCase(host, "localhost") || host == "::1" ||
         (absl::StartsWith(host, "127.") && inet_pton(AF_INET, host.c_str(), &four) == 1);
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  Address address;
  if (absl::StartsWith(text, "unix:")) {
    absl::string_view path = text.substr(5);
    if (absl::StartsWith(path, "///")) path.remove_prefix(2);
    if (path.empty() || path.find('\0') != absl::string_view::npos) return Wrong(kForms, text);
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Invalid("has a socket path of ", path.size(), " bytes; the limit is ",
                     sizeof(sockaddr_un::sun_path) - 1);
    }
    address.is_unix = true;
    address.path = std::string(path);
    return address;
  }
  const size_t colon = std::min(text.rfind(':'), text.size());
  absl::string_view host = text.substr(0, colon);
  const absl::string_view digits = absl::StripPrefix(text.substr(colon), ":");
  const bool bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  address.host = std::string(bracketed ? host.substr(1, host.size() - 2) : host);
  uint32_t port = 0;
  if (!IsHost(address.host, bracketed) || !absl::c_all_of(digits, absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &port) || port > std::numeric_limits<uint16_t>::max()) {
    return Wrong(kForms, text);
  }
  address.port = static_cast<uint16_t>(port);
  return address;
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const Address& address) {
  std::vector<SocketAddress> places;
  if (address.is_unix) {
    SocketAddress& place = places.emplace_back();
    auto& local = reinterpret_cast<sockaddr_un&>(place.storage);
    local.sun_family = AF_UNIX;
    std::memcpy(local.sun_path, address.path.c_str(), address.path.size() + 1);
    place.length = sizeof local;
    return places;
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int unknown = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
  if (unknown != 0) return absl::UnavailableError(gai_strerror(unknown));
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    SocketAddress& place = places.emplace_back();
    place.length = each->ai_addrlen;
    std::memcpy(&place.storage, each->ai_addr, each->ai_addrlen);
  }
  freeaddrinfo(list);
  return places;
}

std::string NumericAddress(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(address.get(), address.length, host.data(), host.size(), port.data(), port.size(),
              NI_NUMERICHOST | NI_NUMERICSERV);
  const bool six = address.get()->sa_family == AF_INET6;
  return absl::StrCat(six ? "[" : "", host.data(), six ? "]:" : ":", port.data());
}

std::string PeerAddress(absl::string_view uri) {
  if (absl::StartsWith(uri, "unix")) return "unix";
  if (!absl::ConsumePrefix(&uri, "ipv4:")) absl::ConsumePrefix(&uri, "ipv6:");
  return absl::StrReplaceAll(uri, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace histogram::server
