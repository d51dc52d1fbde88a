// gRPC's own log lines in the server's log.
#ifndef HISTOGRAM_SERVER_RPC_GRPC_LOG_H_
#define HISTOGRAM_SERVER_RPC_GRPC_LOG_H_

namespace histogram::server {

// From now on gRPC's lines become lines of the server's log, at most a hundred a second. gRPC
// offers this up to 1.64; newer versions go on writing to standard error. gRPC's own variable
// GRPC_VERBOSITY says which severities it reports; without it, errors only.
// REQUIRES: called before gRPC starts a thread.
void LogGrpcLines();

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_GRPC_LOG_H_
