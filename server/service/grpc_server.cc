#include "server/service/grpc_server.h"

#include <grpc/compression.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>
#include <histogram/usable_cores.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/address.h"
#include "server/base/thresholds.h"
#include "server/http/sockets.h"
#include "server/rpc/certificates.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/served_stream.h"

namespace histogram::server {
namespace {

constexpr char kServiceName[] = "histogram.v1.HistogramService";
constexpr uint64_t kReceiveBytesOverLimit = uint64_t{256} << 20;
// Reflection is gRPC's synchronous service: it has a thread for each open stream.
constexpr int kReflectionThreadsMax = 16;
// Clients that ping faster are disconnected. gRPC for Go and Java does not; that for C++ and Python
// does where it is told to.
constexpr int kPingIntervalMsMin = 10000;
// gRPC takes messages of at least this over the largest payload, so that the service's own check,
// which answers with a proper error, comes first.
constexpr uint64_t kMessageBytesOverPayload = uint64_t{2} << 20;
constexpr int kHandshakeTimeoutMs = 10000;  // ends clients that never finish the handshake
// gRPC lets a connection have up to 4 MiB on their way while memory is plentiful, and notices too
// late that many connections have filled it. With less memory than this, what may be on its way is
// fixed: 64 KiB a connection, and up to 1 MiB of each message that is being received.
constexpr uint64_t kAdaptiveWindowBytesMin = uint64_t{256} << 20;
constexpr int kFrameBytesMax = 1 << 20;  // with adaptive windows gRPC raises its 16 KiB as well

// gRPC's own refusals reach neither metrics nor log, and name no setting. So its limits lie above
// ours, far enough for what people send by mistake.
constexpr uint32_t kRefusedHeaderBytesFactor = 2;

// Between two looks of the call guard a client fills a link of 10 Gbit/s with 25 MB.
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
// Peers on a slow network have this long, 300 ms, to send what is on its way.
constexpr int kQuietLooks = 15;

int ClampToInt(uint64_t value) { return static_cast<int>(std::min<uint64_t>(value, INT_MAX)); }

// Linking the reflection library is enough to switch reflection on; this takes it out again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->erase(
        std::remove_if(plugins->begin(), plugins->end(),
                       [](const auto& p) { return p->name() == "proto_server_reflection"; }),
        plugins->end());
  }
};

// The error of an address that gRPC cannot bind.
absl::Status CannotListen(const std::string& text, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", text, ": ", why));
}

// A socket file that a dead server left behind would make the address look taken; one that somebody
// listens on must not be stolen, and anything that is not a socket must not be deleted.
absl::Status CheckUnixSocket(const std::string& text, const std::string& path,
                             const SocketAddress& place) {
  struct stat info {};
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (exists && !S_ISSOCK(info.st_mode)) {
    return CannotListen(text, "the path exists and is not a socket");
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return CannotListen(text, strerror(errno));
  // EAGAIN: somebody listens, and does not accept those who wait.
  const bool alive = exists && (connect(fd, place.get(), place.length) == 0 || errno == EAGAIN);
  if (exists && !alive) unlink(path.c_str());
  const int error = !alive && bind(fd, place.get(), place.length) != 0 ? errno : 0;
  close(fd);
  if (alive) return CannotListen(text, "another server is listening there");
  if (error != 0) return CannotListen(text, strerror(error));
  unlink(path.c_str());
  return absl::OkStatus();
}

// UNAVAILABLE, with the system's reason, where gRPC could not bind the address now: gRPC says only
// that it cannot. Leaves nothing bound, so gRPC's own bind decides between two servers. Removes a
// socket file that a dead server left behind.
absl::Status CheckListenAddress(const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return address.status();
  absl::StatusOr<std::vector<SocketAddress>> places = Resolve(*address);
  if (!places.ok()) return CannotListen(text, places.status().message());
  if (address->is_unix) return CheckUnixSocket(text, address->path, places->front());
  const absl::StatusOr<std::vector<ListeningSocket>> sockets = Listen(*std::move(places));
  if (!sockets.ok()) return CannotListen(text, sockets.status().message());
  for (const ListeningSocket& one : *sockets) close(one.fd);
  return absl::OkStatus();
}

void AwaitCalls(ServiceContext& context, EventLoop& loop) {
  // As many of each as one connection may have open. A call that nothing awaits in its connection's
  // loop begins in another loop, which then looks after the connection, too, for good.
  for (uint32_t i = 0; i < context.config.streams_max; ++i) {
    for (const MethodEntry& method : kMethods) {
      if (method.await != AwaitDescribe) method.await(context, loop);
    }
  }
  AwaitDescribe(context, loop);
}

}  // namespace

uint32_t ReceiveThreads(const TransportConfig& config) {
  return config.receive_threads > 0 ? config.receive_threads : UsableCores();
}

void ApplyTransportSettings(const TransportConfig& config, grpc::ServerBuilder& builder) {
  // gRPC has a whole message in memory before anyone can refuse it; the call guard sees to it that
  // all of them together stay within the limit. Only what could never be there is gRPC's to refuse.
  builder.SetMaxReceiveMessageSize(ClampToInt(
      std::max(config.payload_bytes_max + kMessageBytesOverPayload, config.receive_bytes_max)));
  builder.SetMaxSendMessageSize(-1);
  grpc::ResourceQuota quota("receive");
  // Above the call guard's limit: where gRPC's own is reached, it ends calls by chance.
  quota.Resize(config.receive_bytes_max +
               std::min(config.receive_bytes_max / 2, kReceiveBytesOverLimit));
  quota.SetMaxThreads(kReflectionThreadsMax);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port in use is an error
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.streams_max));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(kRefusedHeaderBytesFactor * kHeaderBytesMax));
  // Compressed messages are refused: a small one inflates before any limit of ours sees it. They
  // come as they are sent, so that the refusal is the service's, counted and logged.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMsMin);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  if (config.receive_bytes_max < kAdaptiveWindowBytesMin) {
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytesMax);
  }
  if (config.connection_age_us_max > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               ClampToInt((config.connection_age_us_max + 999) / 1000));
    // Streams may take long.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, INT_MAX);
  }
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(ServiceContext& context) {
  const TransportConfig& config = context.config;
  std::unique_ptr<GrpcServer> server(new GrpcServer());
  if (!config.tls_cert.empty()) {
    auto certificates =
        TlsCertificates::Load({config.tls_cert, config.tls_key, config.tls_client_ca});
    if (!certificates.ok()) return certificates.status();
    server->certificates_ = *std::move(certificates);
  }
  grpc::EnableDefaultHealthCheckService(false);  // HealthService is the server's own
  // Reflection has no place for a token: under authentication it is off.
  const bool reflection = context.authenticator == nullptr;
  if (reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  ApplyTransportSettings(config, builder);
  for (const MethodEntry& method : kMethods) context.methods.AddRawMethod(method.path);
  builder.RegisterService(&context.methods);
  builder.RegisterService(&server->health_);
  server->loops_ = std::make_unique<EventLoops>(builder, ReceiveThreads(config), context.guard);

  std::vector<int> ports(config.listen.size(), 0);
  for (size_t i = 0; i < config.listen.size(); ++i) {
    const std::string& address = config.listen[i];
    if (absl::Status s = CheckListenAddress(address); !s.ok()) return s;
    // A unix socket stays on this machine and is guarded by its file's permissions: no TLS.
    const bool tls = server->certificates_ != nullptr && !absl::StartsWith(address, "unix:");
    builder.AddListeningPort(
        address, tls ? server->certificates_->MakeCredentials() : grpc::InsecureServerCredentials(),
        &ports[i]);
  }
  server->context_ = &context;
  server->server_ = builder.BuildAndStart();
  for (size_t i = 0; i < config.listen.size(); ++i) {
    const std::string& address = config.listen[i];
    if (server->server_ == nullptr || ports[i] == 0) {
      // gRPC opens them in order and stops at the first that fails.
      if (ports[i] != 0 && i + 1 < config.listen.size()) continue;
      return CannotListen(address, "the address is in use or cannot be bound");
    }
    server->addresses_.push_back(
        absl::StartsWith(address, "unix:")
            ? address
            : absl::StrCat(address.substr(0, address.rfind(':') + 1), ports[i]));
  }
  server->SetReady(false);
  server->health_.SetServing("liveness", true);
  for (uint32_t i = 0; i < server->loops_->size(); ++i) {
    EventLoop& loop = (*server->loops_)[i];
    context.loops.push_back(std::make_unique<LoopContext>(context.batcher, loop));
    AwaitCalls(context, loop);
    server->health_.AwaitCalls(loop);
  }
  context.memory.Begin();
  server->loops_->Start();
  server->watch_ = std::thread([s = server.get()] { s->Watch(); });
  server->probe_ =
      std::make_unique<SelfProbe>(server->addresses_, !config.tls_cert.empty(), context.observer);
  return server;
}

void GrpcServer::Watch() {
  pthread_setname_np(pthread_self(), "call-guard");
  for (int quiet = 0; !ended_.WaitForNotificationWithTimeout(kLookInterval);) {
    const CallGuard::Ended ended = context_->guard.EndReceiving();
    if (ended.calls > 0) {
      context_->observer.EndedReceiving(ended.calls, ended.bytes, ended.peer);
    }
    if (!shutting_down_.HasBeenNotified()) continue;
    quiet = context_->open.Sum(ServiceContext::kCalls) == 0 ? quiet + 1 : 0;
    if (quiet == kQuietLooks) CancelAllCalls(*server_);
  }
}

GrpcServer::~GrpcServer() {
  if (probe_ != nullptr) probe_->Stop();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  ended_.Notify();
  if (watch_.joinable()) watch_.join();
  if (loops_ != nullptr) loops_->Stop();
}

void GrpcServer::SetReady(bool ready) {
  health_.SetServing("", ready);
  health_.SetServing(kServiceName, ready);
}

bool GrpcServer::AwaitQuiet(ServiceContext::Open what, int looks, absl::Time deadline) const {
  int quiet = 0;
  while (quiet < looks && absl::Now() < deadline) {
    absl::SleepFor(kLookInterval);
    quiet = context_->open.Sum(what) == 0 ? quiet + 1 : 0;
  }
  return quiet >= looks;
}

void GrpcServer::DrainAndShutdown(uint64_t grace_us) {
  probe_->Stop();  // it would find the ports closed
  for (uint32_t i = 0; i < loops_->size(); ++i) {
    PostFunction((*loops_)[i], [&shared = *context_->loops[i]] {
      shared.draining = true;
      for (ServedStream* stream : shared.streams) stream->Drain();
    });
  }
  // The connections stay open until the streams' clients have heard of their end: closing one on
  // which its client still sends makes TCP throw away what the client has not read yet.
  constexpr uint64_t kLingerUs = 200000;
  const absl::Time deadline = absl::Now() + absl::Microseconds(grace_us);
  if (AwaitQuiet(ServiceContext::kStreams, 1, deadline)) {
    absl::SleepFor(absl::Microseconds(std::min(kLingerUs, grace_us)));
  }
  SayGoodbye(*server_);
  // Longer than any client needs to hear of it.
  AwaitQuiet(ServiceContext::kCalls, kQuietLooks,
             std::min(deadline, absl::Now() + absl::Seconds(1)));
  shutting_down_.Notify();
  server_->Shutdown(absl::ToChronoTime(deadline));
  server_->Wait();
}

}  // namespace histogram::server
