// The state that all calls of a Client share. Immutable after Connect, and so thread-safe.
#ifndef HISTOGRAM_CLIENT_CLIENT_IMPL_H_
#define HISTOGRAM_CLIENT_CLIENT_IMPL_H_

#include <grpcpp/client_context.h>
#include <histogram/client.h>

#include "absl/time/time.h"
#include "client/channel.h"

namespace histogram::client {

struct Client::Impl {
  ConnectOptions options;
  Channels channels;

  // Sets the options of one call. `deadline` is that of the whole call; absl::InfiniteFuture():
  // none.
  void Prepare(grpc::ClientContext& context, const CallOptions& call, absl::Time deadline) const {
    context.set_wait_for_ready(call.wait_for_ready);
    if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
    if (!options.bearer_token.empty()) {
      context.AddMetadata("authorization", "Bearer " + options.bearer_token);
    }
  }
};

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_CLIENT_IMPL_H_
