#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/client_unary_call.h>
#include <histogram/client.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/codec.h"
#include "grpc/health/v1/health.pb.h"
#include "histogram/v1/histogram.grpc.pb.h"  // for its serialization traits

namespace histogram::client {
namespace {

// One unary call on this thread. `impl`: the Client's.
template <typename Response>
absl::StatusOr<Response> Call(const auto& impl, const std::shared_ptr<grpc::Channel>& channel,
                              const char* method, const grpc::ByteBuffer& request,
                              const CallOptions& options) {
  grpc::ClientContext context;
  PrepareCall(impl.options, options, absl::Now() + options.timeout, context);
  Response response;
  // The function of generated stubs, but with a request that is serialized already.
  const grpc::internal::RpcMethod called(method, grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall(channel.get(), called, &context, request, &response);
  if (!status.ok()) return ToStatus(status, context);
  return response;
}

// gRPC stops when its last object goes, and that can block for the ten seconds that one of its
// internal pollers sleeps. One reference that is never given back keeps it running instead.
absl::Status StartGrpc() {
  static absl::Mutex mutex;
  static bool started = false;
  const absl::MutexLock lock(&mutex);
  if (started) return absl::OkStatus();
  if (absl::Status status = CheckThreads(kGrpcThreads); !status.ok()) return status;
  if (absl::Status status = CheckDescriptors(kGrpcDescriptors); !status.ok()) return status;
  grpc_init();
  started = true;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckThreads(size_t wanted) {
  absl::Notification over;
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  try {
    while (threads.size() < wanted) {
      threads.emplace_back([&over] { over.WaitForNotification(); });
    }
  } catch (const std::system_error&) {
    // The system allows no more.
  }
  over.Notify();
  for (std::thread& thread : threads) thread.join();
  if (threads.size() == wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system lets this process have ", threads.size(), " more threads of the ", wanted,
      " that it needs: raise the limit of processes (ulimit -u, pids limit of a "
      "container)"));
}

absl::Status CheckDescriptors(size_t wanted) {
  std::vector<int> files;
  while (files.size() < wanted) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0) break;
    files.push_back(file);
  }
  for (const int file : files) close(file);
  if (files.size() == wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system lets this process open ", files.size(), " more files and sockets of the ", wanted,
      " that it needs: raise the limit of open files (ulimit -n)"));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ConnectOptions& options) {
  if (absl::Status status = CheckOptions(address, options); !status.ok()) return status;
  if (absl::Status status = StartGrpc(); !status.ok()) return status;
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->channels = MakeChannels(address, options);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

absl::StatusOr<v1::ComputeResponse> Client::Compute(const v1::Spec& spec, std::string payload,
                                                    const CallOptions& options) {
  const uint64_t bytes = payload.size();
  const grpc::ByteBuffer request =
      EncodeCompute(spec.SerializeAsString(), OwningSlice(std::move(payload)));
  auto reply =
      Call<v1::ComputeResponse>(*impl_, impl_->channels.calls, kComputeMethod, request, options);
  if (!reply.ok()) return reply;
  absl::Status status = CheckReply(spec, reply->histogram(), reply->rows(), bytes);
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<v1::DescribeResponse> Client::Describe(const CallOptions& options) {
  const grpc::Slice empty;
  return Call<v1::DescribeResponse>(*impl_, impl_->channels.admin,
                                    "/histogram.v1.HistogramService/Describe",
                                    grpc::ByteBuffer(&empty, 1), options);
}

absl::StatusOr<HealthStatus> Client::Health(const std::string& service,
                                            const CallOptions& options) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const grpc::Slice message(request.SerializeAsString());
  const auto reply = Call<grpc::health::v1::HealthCheckResponse>(
      *impl_, impl_->channels.admin, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(&message, 1),
      options);
  if (!reply.ok()) return reply.status();
  return static_cast<HealthStatus>(reply->status());
}

}  // namespace histogram::client
