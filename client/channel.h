// Channels: the address, credentials, gRPC's settings and the service config with its retries.
// Pure functions; thread-safe.
#ifndef HISTOGRAM_CLIENT_CHANNEL_H_
#define HISTOGRAM_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <histogram/client.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace histogram::client {

struct Channels {
  std::shared_ptr<grpc::Channel> calls;  // round robin over the servers that are ready, retries
  std::shared_ptr<grpc::Channel> admin;  // the first server that answers, ready or not
};

absl::Status CheckAddress(const std::string& address);
// Whether what is sent there stays on this machine.
bool IsLocalAddress(const std::string& address);
absl::Status CheckOptions(const std::string& address, const ConnectOptions& options);

// JSON. Compute and Describe are retried on UNAVAILABLE and RESOURCE_EXHAUSTED, with the server's
// pushback if it sends one (a negative one: final); the streams are not.
std::string ServiceConfig(const ConnectOptions& options, bool admin);

// TLS as the options have it, else none.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const ConnectOptions& options);

// REQUIRES: CheckOptions(address, options).ok().
Channels MakeChannels(const std::string& address, const ConnectOptions& options);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CHANNEL_H_
