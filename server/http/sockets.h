// Listening sockets, and a reserve of descriptors. Not thread-safe.
#ifndef HISTOGRAM_SERVER_HTTP_SOCKETS_H_
#define HISTOGRAM_SERVER_HTTP_SOCKETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/address.h"

namespace histogram::server {

// UNAVAILABLE: "cannot bind FLAG LISTEN: WHY".
absl::Status CannotBind(const std::string& flag, const std::string& listen, const std::string& why);

struct ListeningSocket {
  int fd = -1;
  SocketAddress place;  // with the actual port
};
// Binds all addresses that `listen` means, on one port, and listens. The sockets do not block; the
// caller closes them. One address that is in use is an error: its clients would reach another
// server. Of a name, addresses that this machine does not have are left out, but not all of them.
absl::StatusOr<std::vector<ListeningSocket>> Listen(const std::string& listen,
                                                    const std::string& flag);

// Descriptors kept back for clients that come while the process has no others.
class SpareDescriptors {
 public:
  SpareDescriptors() = default;
  ~SpareDescriptors();
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;

  // Makes up for those that were used. False: there are not enough now.
  bool Refill();
  bool empty() const { return spare_.empty(); }
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
