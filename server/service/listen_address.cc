#include "server/service/listen_address.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/config/values.h"

namespace histogram::server {
namespace {

// A socket file that a dead server left behind would make the address look taken; one that somebody
// listens on must not be stolen, and anything that is not a socket must not be deleted.
absl::Status CheckUnixSocket(const std::string& text, const std::string& path,
                             const SocketAddress& place) {
  struct stat info {};
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (exists && !S_ISSOCK(info.st_mode)) {
    return CannotListen(text, "the path exists and is not a socket");
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return CannotListen(text, strerror(errno));
  // EAGAIN: somebody listens, and does not accept those who wait.
  const bool alive = exists && (connect(fd, place.get(), place.length) == 0 || errno == EAGAIN);
  if (exists && !alive) unlink(path.c_str());
  const int error = !alive && bind(fd, place.get(), place.length) != 0 ? errno : 0;
  close(fd);
  if (alive) return CannotListen(text, "another server is listening there");
  if (error != 0) return CannotListen(text, strerror(error));
  unlink(path.c_str());
  return absl::OkStatus();
}

// 0, or errno.
int TryToBind(const SocketAddress& place) {
  const int fd = socket(place.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  // As gRPC does: connections of an earlier server that are not quite over are in nobody's way.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int error = bind(fd, place.get(), place.length) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// A name may have several addresses, of which gRPC takes those that it can bind. One that is in use
// is nevertheless an error: its clients would reach two servers.
absl::Status CheckTcp(const std::string& text, const std::vector<SocketAddress>& places) {
  int error = 0;
  bool bound = false;
  for (const SocketAddress& place : places) {
    const int failed = TryToBind(place);
    bound = bound || failed == 0;
    if (failed == EADDRINUSE) return CannotListen(text, strerror(failed));
    if (error == 0) error = failed;
  }
  return bound ? absl::OkStatus() : CannotListen(text, strerror(error));
}

}  // namespace

absl::Status CannotListen(const std::string& text, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("cannot listen on ", text, ": ", why),
                   {.reason = "ADDRESS_UNAVAILABLE", .field = "listen"});
}

absl::Status CheckListenAddress(const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return address.status();
  const absl::StatusOr<std::vector<SocketAddress>> places = Resolve(*address);
  if (!places.ok()) return CannotListen(text, std::string(places.status().message()));
  return address->is_unix ? CheckUnixSocket(text, address->path, places->front())
                          : CheckTcp(text, *places);
}

}  // namespace histogram::server
