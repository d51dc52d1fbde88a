// Why an address cannot be listened on: gRPC says only that it cannot.
#ifndef HISTOGRAM_SERVER_SERVICE_LISTEN_ADDRESS_H_
#define HISTOGRAM_SERVER_SERVICE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace histogram::server {

// UNAVAILABLE, with the system's reason, where gRPC could not bind the address now. Leaves nothing
// bound, so gRPC's own bind decides between two servers. Removes a socket file that a dead server
// left behind.
absl::Status CheckListenAddress(const std::string& text);

// The error of an address that gRPC cannot bind. `why`: in words.
absl::Status CannotListen(const std::string& text, const std::string& why);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_LISTEN_ADDRESS_H_
