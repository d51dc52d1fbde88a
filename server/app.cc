#include "server/app.h"

#include <histogram/usable_cores.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/backend_factory.h"
#include "server/base/address.h"
#include "server/base/logging.h"
#include "server/batching/batcher.h"
#include "server/http/operator_port.h"
#include "server/metrics/server_metrics.h"
#include "server/process_tuning.h"
#include "server/rpc/certificates.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/grpc_server.h"
#include "server/service/http_port.h"

namespace histogram::server {
namespace {

std::vector<Backend*> Pointers(const BackendSet& set) {
  std::vector<Backend*> pointers;
  for (const auto& backend : set.backends) pointers.push_back(backend.get());
  return pointers;
}

MetricsOptions MakeMetricsOptions(const Config& config, const BackendSet& set,
                                  std::function<ServerState()> state) {
  MetricsOptions options;
  for (const auto& backend : set.backends) {
    options.backends.push_back({backend->info(), backend->kernels()});
  }
  options.config = config;
  options.build = GetBuildInfo();
  options.cuda = CudaCompiledIn();
  options.state = std::move(state);
  return options;
}

void LogBackends(const BackendSet& set) {
  for (const std::string& note : set.notes) Log(LogLevel::kInfo, note);
  for (const auto& backend : set.backends) {
    const BackendInfo& info = backend->info();
    Log(LogLevel::kInfo, "backend",
        {{"name", info.name},
         {"device", info.device},
         {"lanes", info.lanes},
         {"pinned_bytes", info.pinned_bytes},
         {"device_bytes", info.device_bytes}});
  }
}

// About as many as run while the server serves. Without them it fails here, with a sentence, rather
// than later in a library that ends the process.
uint32_t ThreadsNeeded(const Config& config) {
  constexpr uint32_t kOthers = 24;  // gRPC's own, and those that ARCHITECTURE.md lists
  const uint32_t lanes = config.backend.cpu_lanes;
  return ReceiveThreads(config.transport) + (lanes > 0 ? lanes : UsableCores()) + kOthers;
}

// Likewise. A receiving thread that has no descriptor to be woken by ends without a word.
uint32_t DescriptorsNeeded(const Config& config) {
  constexpr uint32_t kOthers = 40;  // 36 are open once it serves at one place of each kind
  return ReceiveThreads(config.transport) + kOthers;
}

// Half of what may be received: a full queue has at most half, and as much may be on its way to it.
uint64_t ReceiveMemoryBytes(const Config& config) {
  const bool may_use_gpu =
      CudaCompiledIn() && config.backend.choice != BackendOptions::Choice::kCpu;
  return may_use_gpu && HasReceiveMemory() ? config.transport.receive_bytes_max / 2 : 0;
}

// Everything that runs while the server serves, in the order in which it is made; taken down in the
// opposite order.
class App {
 public:
  // `receive_memory`: what connections are read into, if that is pinned; else null.
  App(const Config& config, BackendSet set, const ReceiveMemory* receive_memory)
      : config_(config),
        set_(std::move(set)),
        backends_(Pointers(set_)),
        metrics_(MakeMetricsOptions(config, set_, [this] { return State(); })),
        batcher_(backends_, config.batching, Clock::Monotonic(), metrics_),
        context_{config.transport, batcher_, Clock::Monotonic(), metrics_, receive_memory} {
    context_.describe = [this] {
      return Describe(GetBuildInfo().version, backends_, config_.transport, config_.batching,
                      batcher_.snapshot().placements);
    };
  }

  absl::Status Start() {
    if (!config_.transport.token_file.empty()) {
      auto authenticator =
          Authenticator::Load(config_.transport.token_file, config_.transport.payload_bytes_max);
      if (!authenticator.ok()) return authenticator.status();
      context_.authenticator = *std::move(authenticator);
    }
    OperatorPortOptions operators;
    operators.listen = config_.metrics_listen;
    operators.metrics = [this] { return metrics_.Text(); };
    operators.not_ready = [this] { return NotReadyBecause(); };
    operators.live = [this] { return live_ || draining_; };
    auto operator_port = StartOperatorPort(std::move(operators));
    if (!operator_port.ok()) return operator_port.status();
    operators_ = *std::move(operator_port);
    if (operators_ != nullptr) {
      Log(LogLevel::kInfo, "metrics listening", {{"address", operators_->address()}});
    }
    auto grpc = GrpcServer::Start(context_);
    if (!grpc.ok()) return grpc.status();
    grpc_ = *std::move(grpc);
    for (const std::string& address : grpc_->addresses()) {
      Log(LogLevel::kInfo, "listening", {{"address", address}});
    }
    if (!config_.transport.http_listen.empty()) {
      auto http = StartHttpPort(context_);
      if (!http.ok()) return http.status();
      http_ = *std::move(http);
      Log(LogLevel::kInfo, "http listening", {{"address", http_->address()}});
    }
    RefreshSecurity();
    listening_.store(true);
    // A program that has read the port file finds the server ready, if it can be. Once the file is
    // there, the log says whether it is.
    UpdateHealth();
    if (absl::Status written = WritePortFile(); !written.ok()) return written;
    LogReadiness();
    return absl::OkStatus();
  }

  // Until a stop signal, or until a device is lost under --on-device-loss exit.
  int Serve() {
    constexpr uint64_t kHealthIntervalUs = 200000;
    constexpr int kTurnsBetweenRefreshes = 5;
    for (int turn = 1;; ++turn) {
      if (turn % kTurnsBetweenRefreshes == 0) {
        RefreshSecurity();
        CheckLoops();
      }
      EndUnread();
      if (const int signal = WaitForStopSignal(kHealthIntervalUs); signal != 0) {
        Log(LogLevel::kInfo, "stopping", {{"signal", absl::StrCat("SIG", sigabbrev_np(signal))}});
        return 0;
      }
      if (UpdateHealth()) LogReadiness();
      if (config_.on_device_loss == OnDeviceLoss::kExit && LostDevice()) return 1;
    }
  }

  void Drain() {
    draining_.store(true);
    grpc_->SetReady(false);
    Log(LogLevel::kInfo, "draining",
        {{"drain_delay_us", config_.transport.drain_delay_us},
         {"drain_max_us", config_.transport.drain_us_max}});
    // Balancers need a moment to see NOT_SERVING; a second signal cuts it short.
    if (WaitForStopSignal(config_.transport.drain_delay_us) != 0) {
      Log(LogLevel::kInfo, "second signal: the drain delay is cut short");
    }
    const uint64_t grace_us = config_.transport.drain_us_max - config_.transport.drain_delay_us;
    if (http_ != nullptr) {
      http_->Drain(Clock::Monotonic().Now() + static_cast<TimeNs>(grace_us) * 1000);
    }
    grpc_->DrainAndShutdown(grace_us);
    if (http_ != nullptr) http_->AwaitDrained();
    batcher_.Drain();
    const Clock& clock = Clock::Monotonic();
    constexpr TimeNs kLeftOverNs = 1000000000;  // of calls that the shutdown cancelled
    if (!batcher_.WaitIdle(clock.Now() + kLeftOverNs)) {
      Log(LogLevel::kWarn, "left with work that a lane did not finish");
    }
    if (!config_.port_file.empty()) std::remove(config_.port_file.c_str());
    Log(LogLevel::kInfo, "drained");
  }

  bool LostDevice() const {
    return !absl::c_all_of(backends_, [](const Backend* backend) { return backend->up(); });
  }

 private:
  ServerState State() const {
    return {batcher_.snapshot(), NotReadyBecause().empty(), draining_,
            context_.memory.replies.bytes(), unread_ended_};
  }

  // Empty when requests are welcome, else the reason why not.
  std::string NotReadyBecause() const {
    if (!listening_.load()) return "starting";  // /readyz is there before gRPC's ports are
    if (draining_.load()) return "draining";
    if (absl::c_none_of(backends_, [](const Backend* backend) { return backend->up(); })) {
      return "no backend is up";
    }
    if (config_.require_cuda && !HasCuda()) return "backend cuda is required and none is up";
    const std::string unreachable = grpc_->probe().Unreachable();
    if (!unreachable.empty()) return absl::StrCat(unreachable, " does not answer");
    return "";
  }

  // Liveness: whether all event loops turn.
  void CheckLoops() {
    // Longer than anything that a stranger can make a loop do, and than a look of the call guard.
    constexpr TimeNs kStoodStillNsMax = TimeNs{30} * 1000000000;
    const bool live = grpc_->StoodStillNs() < kStoodStillNsMax &&
                      (http_ == nullptr || http_->StoodStillNs() < kStoodStillNsMax);
    if (live_.exchange(live) == live) return;
    Log(LogLevel::kError, live ? "live again" : "not live: a receiving thread stands still");
    grpc_->health().SetServing("liveness", live);
  }

  bool HasCuda() const {
    return absl::c_any_of(backends_, [](const Backend* backend) {
      return backend->info().kind == BackendKind::kGpu && backend->up();
    });
  }

  // Tells health the present state. Returns whether readiness or its reason has changed, for
  // LogReadiness.
  bool UpdateHealth() {
    for (const Backend* backend : backends_) {
      grpc_->health().SetServing(absl::StrCat("backend/", backend->info().name), backend->up());
    }
    const std::string reason = NotReadyBecause();
    grpc_->SetReady(reason.empty());
    return std::exchange(not_ready_, reason) != reason;
  }

  void LogReadiness() const {
    if (not_ready_.empty()) {
      Log(LogLevel::kInfo, "ready");
    } else {
      Log(LogLevel::kWarn, "not ready", {{"reason", not_ready_}});
    }
  }

  absl::Status WritePortFile() const {
    if (config_.port_file.empty()) return absl::OkStatus();
    // Written aside and renamed: whoever sees the file sees all of it.
    const std::string aside = absl::StrCat(config_.port_file, ".new");
    errno = 0;
    std::ofstream out(aside, std::ios::trunc);
    for (const std::string& address : grpc_->addresses()) out << "address=" << address << "\n";
    if (operators_ != nullptr) out << "metrics=" << operators_->address() << "\n";
    if (http_ != nullptr) out << "http=" << http_->address() << "\n";
    out.close();
    if (!out || std::rename(aside.c_str(), config_.port_file.c_str()) != 0) {
      const int error = errno;
      std::remove(aside.c_str());
      return absl::UnavailableError(
          absl::StrCat("cannot write --port-file ", config_.port_file, ": ", strerror(error)));
    }
    return absl::OkStatus();
  }

  // Tokens and certificates are read again when their files change.
  void RefreshSecurity() {
    if (context_.authenticator != nullptr) NoteReload("tokens", context_.authenticator->Reload());
    if (TlsCertificates* certificates = grpc_->certificates()) {
      NoteReload("certificates", certificates->Reload());
      for (const std::string& note : certificates->TakeNotes()) Log(LogLevel::kWarn, note);
      for (const auto& [file, seconds] : certificates->expiry()) {
        metrics_.SetCertificateExpiry(file, seconds);
      }
    }
  }

  // Ends calls whose clients do not read their replies.
  void EndUnread() {
    const CallGuard::Ended ended = context_.guard.EndUnread();
    unread_ended_ += ended.calls;
    if (ended.calls == 0) return;
    Log(LogLevel::kWarn, "ended calls whose clients do not read their replies",
        {{"calls", ended.calls}, {"bytes", ended.bytes}, {"peer", ended.peer}});
  }

  // Of one look at the files of a kind: a new problem and its end are logged once.
  void NoteReload(const std::string& files, const absl::StatusOr<bool>& reloaded) {
    metrics_.SetReloadFailing(files, !reloaded.ok());
    const std::string problem = reloaded.ok() ? "" : std::string(reloaded.status().message());
    if (std::exchange(reload_problems_[files], problem) != problem) {
      if (problem.empty()) {
        Log(LogLevel::kInfo, absl::StrCat(files, " can be read again"));
      } else {
        Log(LogLevel::kWarn, absl::StrCat("the former ", files, " stay in force"),
            {{"reason", problem}});
      }
    }
    if (reloaded.ok() && *reloaded) Log(LogLevel::kInfo, absl::StrCat(files, " reloaded"));
  }

  const Config& config_;
  BackendSet set_;
  std::vector<Backend*> backends_;
  ServerMetrics metrics_;
  Batcher batcher_;
  ServiceContext context_;
  std::atomic<bool> listening_{false}, draining_{false}, live_{true};
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> http_;       // null: off
  std::unique_ptr<HttpServer> operators_;  // the same; asks the others for their state: goes first
  std::string not_ready_;                  // why, as was last told
  std::atomic<uint64_t> unread_ended_{0};  // calls, so far
  std::map<std::string, std::string> reload_problems_;  // by kind of files
};

// Warns where other machines can connect.
void LogKnownFlaws(const std::vector<std::string>& listen) {
  const bool local = absl::c_all_of(listen, [](const std::string& text) {
    const auto address = ParseAddress(text);
    return address.ok() && address->IsLocal();
  });
  Log(local ? LogLevel::kInfo : LogLevel::kWarn,
      "whoever can connect can stop this server: its gRPC lacks later fixes",
      {{"grpc", GRPC_CPP_VERSION_STRING}, {"see", "docs/operations/security.md"}});
}

int CannotStart(absl::string_view reason) {
  if (!LogEnabled(LogLevel::kError)) {  // --log-level off: it is nevertheless said
    std::fprintf(stderr, "histogram-server: cannot start: %s\n", std::string(reason).c_str());
  }

  Log(LogLevel::kError, "cannot start", {{"reason", std::string(reason)}});
  return 1;
}

}  // namespace

int RunServer(const Config& config) {
  LogLibraryLines();
  const BuildInfo& build = GetBuildInfo();
  Log(LogLevel::kInfo, "histogram-server",
      {{"version", build.version}, {"commit", build.commit}, {"cuda", CudaCompiledIn()}});
  if (AvoidKnownFlaws()) LogKnownFlaws(config.transport.listen);
  const uint32_t threads = ThreadsNeeded(config);
  if (const uint32_t found = StartableThreads(threads); found < threads) {
    return CannotStart(absl::StrCat("the system lets this process have ", found,
                                    " more threads of the ", threads,
                                    " that it needs: raise the limit of processes (ulimit -u, "
                                    "TasksMax of a unit, pids limit of a container), or set "
                                    "--receive-threads and --cpu-lanes lower"));
  }

  const int64_t descriptors = sysconf(_SC_OPEN_MAX);  // -1: there is no limit
  const uint32_t needed = DescriptorsNeeded(config);
  if (descriptors >= 0 && descriptors < needed) {
    return CannotStart(absl::StrCat("the system lets this process have ", descriptors,
                                    " descriptors of the ", needed,
                                    " that it needs: raise their limit (ulimit -n, LimitNOFILE of "
                                    "a unit), or set --receive-threads lower"));
  }

  // It stays: a GPU that hangs may still read it when everything else is gone.
  static ReceiveMemory& receive_memory = *new ReceiveMemory(ReceiveMemoryBytes(config));
  BackendOptions options = config.backend;
  options.receive_memory = receive_memory.all();
  auto set = MakeBackends(options);
  if (!set.ok()) return CannotStart(set.status().message());
  LogBackends(*set);
  const bool pinned = absl::c_any_of(
      set->backends, [](const auto& backend) { return backend->info().reads_receive_memory; });
  if (pinned) {
    ReceiveInto(receive_memory);
    Log(LogLevel::kInfo, "connections are read into pinned memory",
        {{"bytes", receive_memory.all().size()}});
  }

  App app(config, *std::move(set), pinned ? &receive_memory : nullptr);
  if (absl::Status status = app.Start(); !status.ok()) return CannotStart(status.message());
  const int exit_code = app.Serve();
  app.Drain();
  if (app.LostDevice()) {
    // A lost device leaves a context in which any further call may hang: no destructor runs.
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

  return exit_code;
}

}  // namespace histogram::server
