// Where a call comes from, as people write it.
#ifndef HISTOGRAM_SERVER_RPC_PEER_ADDRESS_H_
#define HISTOGRAM_SERVER_RPC_PEER_ADDRESS_H_

#include <grpcpp/server_context.h>

#include <string>

namespace histogram::server {

// "192.0.2.1:40000", "[::1]:40000", "unix".
std::string PeerAddress(const grpc::ServerContext& context);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_PEER_ADDRESS_H_
