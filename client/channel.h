// Makes a client's channels: checks the address and options, makes credentials and the service
// config with its retries. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_CLIENT_CHANNEL_H_
#define HISTOGRAM_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <histogram/client.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace histogram::client {

struct Channels {
  std::shared_ptr<grpc::Channel> calls;  // retries; round robin over the ready servers
  std::shared_ptr<grpc::Channel> admin;  // the first server that answers, ready or not
};

absl::Status CheckAddress(const std::string& address);
// Whether the address is on this machine.
bool IsLocalAddress(const std::string& address);
absl::Status CheckOptions(const std::string& address, const ConnectOptions& options);

// JSON. Compute and Describe are retried on UNAVAILABLE and RESOURCE_EXHAUSTED. A retry waits for
// the server's pushback if it sends one; a negative pushback ends the retries. Streams are not
// retried.
std::string ServiceConfig(const ConnectOptions& options, bool admin);

// TLS if the options have it, else insecure.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(const ConnectOptions& options);

// REQUIRES: CheckOptions(address, options).ok().
Channels MakeChannels(const std::string& address, const ConnectOptions& options);

// The state that all calls of a Client share. Immutable after Connect, and so thread-safe.
struct Client::Impl {
  ConnectOptions options;
  Channels channels;

  // Sets the options of one call. `deadline` is that of the whole call; absl::InfiniteFuture():
  // none.
  void Prepare(grpc::ClientContext& context, const CallOptions& call, absl::Time deadline) const;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CHANNEL_H_
