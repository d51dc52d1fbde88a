#include "server/rpc/peer_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace histogram::server {

std::string PeerAddress(const grpc::ServerContext& context) {
  const std::string uri = context.peer();  // "ipv4:192.0.2.1:40000", "ipv6:%5B::1%5D:40000"
  if (absl::StartsWith(uri, "unix")) return "unix";
  absl::string_view address = uri;
  if (!absl::ConsumePrefix(&address, "ipv4:")) absl::ConsumePrefix(&address, "ipv6:");
  return absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace histogram::server
