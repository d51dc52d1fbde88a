#include "client/cli/commands/http_health.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/connection.h"
#include "client/cli/files.h"
#include "client/cli/render/text.h"

namespace histogram::cli {
namespace {

constexpr size_t kAnswerBytesMax = 4096 + 1024;  // body and header

// Why the last operation of a socket failed. One that took too long fails with EAGAIN, and
// connect(2) with EINPROGRESS.
absl::Status SocketError(const std::string& address) {
  if (errno == EAGAIN || errno == EINPROGRESS) {
    return absl::DeadlineExceededError(
        absl::StrCat("no answer from ", SafeText(address), " in time"));
  }
  return absl::UnavailableError(
      absl::StrCat("no answer from ", SafeText(address), ": ", strerror(errno)));
}

// Connecting and sending end by the deadline. False if it has passed.
bool LimitTime(int file, absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return true;
  const absl::Duration left = deadline - absl::Now();
  errno = EAGAIN;
  if (left < absl::Microseconds(1)) return false;
  const timeval timeout = absl::ToTimeval(left);
  return setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0;
}

// All that comes until the other side closes, cut at kAnswerBytesMax.
absl::StatusOr<std::string> Ask(const addrinfo& where, const std::string& request,
                                const std::string& address, absl::Time deadline) {
  const int file = socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol);
  if (file < 0) return SocketError(address);
  const absl::Cleanup close_file = [file] { close(file); };
  if (!LimitTime(file, deadline) || connect(file, where.ai_addr, where.ai_addrlen) != 0 ||
      send(file, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return SocketError(address);
  }
  std::string text(kAnswerBytesMax, '\0');
  const auto bytes = ReadFully(file, absl::MakeSpan(text), address, deadline);
  if (!bytes.ok()) {
    if (absl::IsDeadlineExceeded(bytes.status())) errno = EAGAIN;
    return SocketError(address);
  }
  text.resize(*bytes);
  return text;
}

absl::StatusOr<HttpAnswer> Parse(absl::string_view text, const std::string& address) {
  HttpAnswer answer;
  const absl::Status not_http = absl::UnavailableError(
      absl::StrCat("what answers at ", SafeText(address), " does not speak HTTP"));
  if (!absl::ConsumePrefix(&text, "HTTP/1.1 ") && !absl::ConsumePrefix(&text, "HTTP/1.0 "))
    return not_http;
  if (text.size() < 3 || !absl::SimpleAtoi(text.substr(0, 3), &answer.status)) return not_http;
  const size_t end = text.find("\r\n\r\n");
  if (end != absl::string_view::npos) answer.body = std::string(text.substr(end + 4));
  return answer;
}

}  // namespace

absl::StatusOr<HttpTarget> ParseHttpTarget(const std::string& text) {
  absl::string_view rest = text;
  if (absl::StartsWithIgnoreCase(rest, "https://")) {
    return absl::InvalidArgumentError("the metrics port speaks no TLS; write http:// or HOST:PORT");
  }
  const bool url = absl::StartsWithIgnoreCase(rest, "http://");
  if (url) rest.remove_prefix(strlen("http://"));
  HttpTarget target = {"", url ? "80" : "", "/readyz"};
  if (const size_t slash = rest.find('/'); url && slash != absl::string_view::npos) {
    if (slash + 1 < rest.size()) target.path = std::string(rest.substr(slash));
    rest = rest.substr(0, slash);
  }
  if (!absl::c_all_of(text, absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", SafeText(text), "\" has a space or a character that is not printable ASCII"));
  }
  const size_t colon = rest.rfind(':');
  // A colon within brackets belongs to an IPv6 address.
  if (colon != absl::string_view::npos && !absl::EndsWith(rest, "]")) {
    target.port = std::string(rest.substr(colon + 1));
    rest = rest.substr(0, colon);
  }
  const bool bracketed = absl::ConsumePrefix(&rest, "[") && absl::ConsumeSuffix(&rest, "]");
  target.host = std::string(rest);
  uint32_t port = 0;
  if (target.host.empty() || (absl::StrContains(rest, ":") && !bracketed) ||
      !absl::c_all_of(target.port, absl::ascii_isdigit) || !absl::SimpleAtoi(target.port, &port) ||
      port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", SafeText(text), "\" is not HOST:PORT or [V6]:PORT with a port from 1 to 65535"));
  }
  return target;
}

absl::StatusOr<HttpAnswer> HttpGet(const HttpTarget& target, absl::Time deadline) {
  const bool ipv6 = absl::StrContains(target.host, ":");
  const std::string address =
      absl::StrCat(ipv6 ? "[" : "", target.host, ipv6 ? "]" : "", ":", target.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot find the host ", SafeText(target.host), ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const std::string request = absl::StrCat("GET ", target.path, " HTTP/1.1\r\nHost: ", address,
                                           "\r\nConnection: close\r\n\r\n");
  absl::StatusOr<std::string> text = absl::UnavailableError("no address");
  for (const addrinfo* each = addresses.get(); each != nullptr && !text.ok();
       each = each->ai_next) {
    text = Ask(*each, request, address, deadline);
  }
  if (!text.ok()) return text.status();
  return Parse(*text, address);
}

}  // namespace histogram::cli
