// Hands gRPC's own log lines to the server's log.
#ifndef HISTOGRAM_SERVER_RPC_GRPC_LOG_H_
#define HISTOGRAM_SERVER_RPC_GRPC_LOG_H_

#include <cstdint>
#include <functional>
#include <string_view>

namespace histogram::server {

enum class GrpcLogSeverity : uint8_t { kDebug, kInfo, kError };

// Called from any thread, several at a time. `place` is "ssl_transport_security.cc:1501".
using GrpcLogSink =
    std::function<void(GrpcLogSeverity severity, std::string_view message, std::string_view place)>;

// From now on gRPC's lines go to `sink` instead of standard error. gRPC offers this up to 1.64;
// newer versions go on writing to standard error. gRPC's own variable GRPC_VERBOSITY says which
// severities it reports; without it, errors only.
// REQUIRES: called once, before gRPC starts a thread.
void RedirectGrpcLog(GrpcLogSink sink);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_GRPC_LOG_H_
