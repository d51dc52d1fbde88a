#include "server/http/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace histogram::server {
namespace {

in_port_t& PortOf(SocketAddress& place) {
  return place.get()->sa_family == AF_INET6
             ? reinterpret_cast<sockaddr_in6&>(place.storage).sin6_port
             : reinterpret_cast<sockaddr_in&>(place.storage).sin_port;
}

// Binds and listens, and sets the port of `place`. Returns -1 with errno on an error.
int ListenAt(SocketAddress& place, bool several) {
  const int fd =
      socket(place.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (fd < 0) return -1;
  const int on = 1;
  const bool six = place.get()->sa_family == AF_INET6;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      (!several || !six || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
      bind(fd, place.get(), place.length) == 0 && listen(fd, SOMAXCONN) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&place.storage), &place.length) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<std::vector<ListeningSocket>> Listen(std::vector<SocketAddress> places) {
  std::vector<ListeningSocket> sockets;
  absl::Cleanup give_up = [&sockets] {
    for (const ListeningSocket& one : sockets) close(one.fd);
  };
  int error = 0;
  for (SocketAddress& place : places) {
    if (!sockets.empty()) PortOf(place) = PortOf(sockets.front().place);
    const int fd = ListenAt(place, places.size() > 1);
    if (fd >= 0) {
      sockets.push_back({fd, place});
      continue;
    }
    if (errno == EADDRINUSE) return absl::UnavailableError(strerror(errno));
    if (error == 0) error = errno;
  }
  if (sockets.empty()) return absl::UnavailableError(strerror(error));
  std::move(give_up).Cancel();
  return sockets;
}

SpareDescriptors::~SpareDescriptors() {
  for (const int fd : spare_) close(fd);
  if (any_ >= 0) close(any_);
}

bool SpareDescriptors::Refill() {
  if (any_ < 0) any_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  while (any_ >= 0 && spare_.size() < kSpareMax) {
    const int fd = fcntl(any_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    spare_.push_back(fd);
  }
  return any_ >= 0;
}

int SpareDescriptors::Accept(int listener, SocketAddress& peer) {
  const auto accept = [&] {
    peer.length = sizeof peer.storage;
    return accept4(listener, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length,
                   SOCK_CLOEXEC | SOCK_NONBLOCK);
  };
  // Without a free descriptor accept4 fails even where no client waits, and each failure costs a
  // reserve descriptor.
  pollfd waits{listener, POLLIN, 0};
  if (poll(&waits, 1, 0) <= 0) {
    errno = EAGAIN;
    return -1;
  }
  int fd = accept();
  // Another thread may take the one that is freed for it: so it tries again.
  while (fd < 0 && RanOutOfDescriptors() && !spare_.empty()) {
    close(spare_.back());
    spare_.pop_back();
    fd = accept();
  }
  return fd;
}

void SpareDescriptors::Close(int fd) {
  // dup3 replaces the descriptor atomically: no other thread can take it in between.
  if (spare_.size() < kSpareMax && dup3(any_, fd, O_CLOEXEC) == fd) {
    spare_.push_back(fd);
  } else {
    close(fd);
  }
}

bool RanOutOfDescriptors() { return errno == EMFILE || errno == ENFILE; }

}  // namespace histogram::server
