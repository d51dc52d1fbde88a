// The gRPC server: listeners, limits, health, reflection, and the drain.
#ifndef HISTOGRAM_SERVER_SERVICE_GRPC_SERVER_H_
#define HISTOGRAM_SERVER_SERVICE_GRPC_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/rpc/certificates.h"
#include "server/rpc/event_loop.h"
#include "server/service/health.h"
#include "server/service/methods.h"
#include "server/service/self_probe.h"
#include "server/service/service_context.h"

namespace grpc {
class Server;
class ServerBuilder;
}  // namespace grpc

namespace histogram::server {

// How many event loops the server has.
uint32_t ReceiveThreads(const TransportConfig& config);

// Message limits, quota and channel arguments: everything that decides how bytes move. Shared with
// the sinks that the service is measured against.
void ApplyTransportSettings(const TransportConfig& config, grpc::ServerBuilder& builder);

// Methods are thread-safe once Start has returned.
class GrpcServer {
 public:
  // Opens every address of the configuration, or fails naming the one that cannot be opened.
  // All health names are NOT_SERVING but "liveness". `context` outlives the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(ServiceContext& context);
  ~GrpcServer();

  // The addresses that are open, ports as chosen by the system where 0 was asked for.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Null without TLS. To be used by one thread.
  TlsCertificates* certificates() const { return certificates_.get(); }

  // Readiness: "" and "histogram.v1.HistogramService".
  void SetReady(bool ready);
  // The other names: "liveness", and "backend/NAME" of each backend.
  HealthService& health() { return health_; }

  const SelfProbe& probe() const { return *probe_; }
  // As EventLoops::StoodStillNs.
  TimeNs StoodStillNs() { return loops_->StoodStillNs(); }

  // Streams stop reading, and end once what they have read is answered. Then the ports close, each
  // connection says goodbye, and the calls that began before its client knew are answered. Calls
  // that are left after `grace_us` are cancelled.
  void DrainAndShutdown(uint64_t grace_us);

 private:
  GrpcServer() = default;
  // Has the call guard look, fifty times a second. A shutdown would also wait for watchers of
  // health and for silent peers. So once no other call has been open for 300 ms of a shutdown, this
  // closes all connections.
  void Watch();
  // Waits until no call of these has been open in so many looks; false if the deadline comes first.
  bool AwaitQuiet(ServiceContext::Open what, int looks, absl::Time deadline) const;

  ServiceContext* context_ = nullptr;
  std::unique_ptr<TlsCertificates> certificates_;  // these two outlive the server
  HealthService health_;
  std::unique_ptr<EventLoops> loops_;  // stopped after the server is shut down; outlive it
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  absl::Notification shutting_down_;
  std::thread watch_;  // started with the server: when it stops there may be no thread to be had
  std::unique_ptr<SelfProbe> probe_;
  absl::Notification ended_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_GRPC_SERVER_H_
