// The service grpc.health.v1.Health over the server's own event loops. gRPC's own implementation
// would bring a completion queue of its own, to which gRPC would assign connections as well.
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
#ifndef HISTOGRAM_SERVER_SERVICE_HEALTH_H_
#define HISTOGRAM_SERVER_SERVICE_HEALTH_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <memory>
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

// Thread-safe. Outlives the gRPC server.
class HealthService final : public RawService {
 public:
  // Hears of changes. Each call of Watch is one.
  class Watcher {
   public:
    virtual void Changed(ServingStatus status) = 0;

   protected:
    ~Watcher() = default;
  };

  HealthService();

  // Sets the status of `name` and tells those who watch it.
  void SetServing(const std::string& name, bool serving);
  ServingStatus Status(const std::string& name) const;

  // Calls Changed with the present status, and then with each new one, until Unwatch. Holds the
  // watcher meanwhile. Changed is called under a lock, so it must not call this object.
  void Watch(const std::string& name, const std::shared_ptr<Watcher>& watcher);
  void Unwatch(const std::string& name, const std::shared_ptr<Watcher>& watcher);

  // Awaits one call of each method in `loop`; when its client comes, it awaits the next one.
  void AwaitCalls(EventLoop& loop);

  enum Method : int { kCheck, kWatch };

 private:
  struct Entry {
    ServingStatus status = HealthCheckResponse::SERVICE_UNKNOWN;
    std::unordered_set<std::shared_ptr<Watcher>> watchers;
  };

  mutable absl::Mutex mu_;
  // An entry is there while its status is set or somebody watches.
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_HEALTH_H_
