// The service grpc.health.v1.Health over the server's own event loops. gRPC's own implementation
// would bring a completion queue of its own, to which gRPC would assign connections as well.
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
#ifndef HISTOGRAM_SERVER_SERVICE_HEALTH_H_
#define HISTOGRAM_SERVER_SERVICE_HEALTH_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>

#include <map>
#include <string>
#include <unordered_set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/grpc_internals.h"

namespace histogram::server {

using grpc::health::v1::HealthCheckResponse;
using ServingStatus = HealthCheckResponse::ServingStatus;

class WatchCall;  // of health.cc: one call of Watch

// Thread-safe. Outlives the gRPC server.
class HealthService final : public RawService {
 public:
  HealthService();

  // Sets the status of `name`. If that is news, tells those who watch it.
  void SetServing(const std::string& name, bool serving);
  ServingStatus Status(const std::string& name) const;

  // Those of a loop that are told of new statuses. Used in the loop alone.
  std::unordered_set<WatchCall*>& watchers(EventLoop& loop) { return watchers_.at(&loop); }

  // Awaits one call of each method in `loop`; when its client comes, it awaits the next one. Called
  // before the loops start.
  void AwaitCalls(EventLoop& loop);

  enum Method : int { kCheck, kWatch };

 private:
  mutable absl::Mutex mu_;
  std::map<std::string, ServingStatus> statuses_ ABSL_GUARDED_BY(mu_);
  std::map<EventLoop*, std::unordered_set<WatchCall*>> watchers_;  // of all loops
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_HEALTH_H_
