// Makes a client's channels: checks the address and options, and what the system allows, makes
// credentials and the service config with its retries. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_CLIENT_CHANNEL_H_
#define HISTOGRAM_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <histogram/client.h>

#include <cstddef>
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
// Whether the address is on this machine: a unix socket, loopback, or the address that stands for
// all of the machine's. A name that gRPC resolves (dns:, ipv4:, ipv6:) counts as elsewhere.
bool IsLocalAddress(const std::string& address);
// Whether gRPC may reach the address through a proxy that the environment names. No proxy is meant
// for this machine's own servers, and none may read a token.
bool MayUseProxy(const std::string& address, const ConnectOptions& options);
absl::Status CheckOptions(const std::string& address, const ConnectOptions& options);

// JSON. Compute and Describe are retried on UNAVAILABLE and RESOURCE_EXHAUSTED, and a ComputeMany
// without an answer on UNAVAILABLE. A retry waits for the server's pushback if it sends one; a
// negative pushback ends the retries. While most calls fail, retries stop: they would add to an
// overload.
std::string ServiceConfig(const ConnectOptions& options, bool admin);

// These two make all channels of the client. REQUIRES: CheckOptions(address, options).ok().
Channels MakeChannels(const std::string& address, const ConnectOptions& options);
// One connection of its own, which retries nothing.
std::shared_ptr<grpc::Channel> MakeBareChannel(const std::string& address,
                                               const ConnectOptions& options);

// Sets the options of one call. `deadline` is that of the whole call; absl::InfiniteFuture(): none.
void PrepareCall(const ConnectOptions& options, const CallOptions& call, absl::Time deadline,
                 grpc::ClientContext& context);

// Threads that gRPC starts for itself. Without them its calls wait for ever.
inline constexpr size_t kGrpcThreads = 6;

// RESOURCE_EXHAUSTED unless the process can start `wanted` threads beside those that it has. Starts
// them, and ends them again. Thread-safe.
absl::Status CheckThreads(size_t wanted);

// Descriptors that gRPC opens for a client. Without them it ends the process.
inline constexpr size_t kGrpcDescriptors = 8;

// RESOURCE_EXHAUSTED unless the process can open `wanted` descriptors beside those that it has.
// Opens them, and closes them again. Thread-safe.
absl::Status CheckDescriptors(size_t wanted);

// The state that all calls of a Client share. Immutable after Connect.
struct Client::Impl {
  ConnectOptions options;
  Channels channels;
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CHANNEL_H_
