// Listening sockets, and a reserve of descriptors. Not thread-safe.
#ifndef HISTOGRAM_SERVER_HTTP_SOCKETS_H_
#define HISTOGRAM_SERVER_HTTP_SOCKETS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/address.h"

namespace histogram::server {

struct ListeningSocket {
  int fd = -1;
  SocketAddress place;  // with the actual port
};
// Binds the places of an address, on one port, and listens. The sockets do not block; the caller
// closes them. One that is in use is an error: its clients would reach another server. Places that
// this machine does not have are left out, but not all of them. UNAVAILABLE with the system's
// reason.
absl::StatusOr<std::vector<ListeningSocket>> Listen(std::vector<SocketAddress> places);

// Descriptors kept back for clients that come while the process has no others.
class SpareDescriptors {
 public:
  SpareDescriptors() = default;
  ~SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

  // Makes up for those that were used. False: there are not enough now.
  bool Refill();
  // A client's socket, which does not block, or -1 with errno.
  int Accept(int listener, SocketAddress& peer);
  // Closes a client's socket, or keeps its descriptor.
  void Close(int fd);

 private:
  static constexpr size_t kSpareMax = 8;
  int any_ = -1;            // an eventfd
  std::vector<int> spare_;  // duplicates of it
};

// Whether errno says that there are no descriptors.
bool RanOutOfDescriptors();

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_HTTP_SOCKETS_H_
