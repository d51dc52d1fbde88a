// histogram-sink: the null sink or the touch sink (see sink_service.h, queue_sink.h) as a process
// of its own.
//
//   histogram-sink null|touch|null-queues|touch-queues cpu|cuda ADDRESS[,ADDRESS...] PORT_FILE
//   [CERTIFICATE KEY]
//
// With a certificate and its key (PEM files) the TCP addresses speak TLS, as those of the server
// do.
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <histogram/histogram.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "bench/service/queue_sink.h"
#include "bench/service/sink_service.h"
#include "kernels/backend_factory.h"
#include "server/config/config.h"
#include "server/process_tuning.h"
#include "server/rpc/certificates.h"
#include "server/service/grpc_server.h"

namespace {

using histogram::Backend;
using histogram::Batch;
using histogram::Fragment;
using histogram::ValueCounts;

// Hands each payload to a lane of a GPU, first come first served, as soon as one is free.
class Lanes {
 public:
  using Done = std::function<void(const ValueCounts&)>;
  explicit Lanes(Backend& backend) : backend_(backend), free_(backend.info().lanes) {}

  void Count(absl::Span<const Fragment> payload, Done done) {
    absl::ReleasableMutexLock lock(&mu_);
    if (free_ == 0) {
      waiting_.push_back({payload, std::move(done)});
      return;
    }
    --free_;
    lock.Release();
    Submit({payload, std::move(done)});
  }

 private:
  struct Task {
    absl::Span<const Fragment> payload;
    Done done;
  };

  void Submit(Task task) {
    auto counts = std::make_shared<ValueCounts>();
    auto batch = std::make_unique<Batch>();
    for (const Fragment& f : task.payload) batch->bytes += f.size();
    batch->items.push_back({task.payload, batch->bytes, histogram::kByteValues, counts.get()});
    backend_.Submit(std::move(batch), [this, counts, done = std::move(task.done)](auto) {
      Next();
      done(*counts);
    });
  }

  void Next() {
    absl::ReleasableMutexLock lock(&mu_);
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.Release();
    Submit(std::move(task));
  }

  Backend& backend_;
  absl::Mutex mu_;
  uint32_t free_ ABSL_GUARDED_BY(mu_);
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mu_);
};

// One pass by the backend's own choice of kernel; a GPU lane gathers, copies and counts.
histogram::bench::Touch TouchWith(Backend& backend) {
  if (backend.info().executes_inline) {
    return [&backend](absl::Span<const Fragment> payload, auto done) {
      ValueCounts counts;
      Batch batch;
      uint64_t bytes = 0;
      for (const Fragment& f : payload) bytes += f.size();
      batch.items.push_back({payload, bytes, histogram::kByteValues, &counts});
      batch.bytes = bytes;
      backend.Execute(batch);
      done(counts);
    };
  }
  auto lanes = std::make_shared<Lanes>(backend);
  return [lanes](absl::Span<const Fragment> payload, auto done) { lanes->Count(payload, done); };
}

int Serve(const std::string& addresses, const std::string& port_file,
          const histogram::server::TlsFiles& tls, histogram::bench::Touch touch, bool queues) {
  histogram::server::TransportConfig config;
  grpc::ServerBuilder builder;
  std::unique_ptr<histogram::bench::SinkService> service;
  std::unique_ptr<histogram::bench::QueueSink> queue_sink;
  if (queues) {
    queue_sink = std::make_unique<histogram::bench::QueueSink>(std::move(touch), builder,
                                                               histogram::UsableCores());
  } else {
    service = std::make_unique<histogram::bench::SinkService>(std::move(touch));
    builder.RegisterService(service.get());
  }
  histogram::server::ApplyTransportSettings(config, builder);
  const std::vector<std::string> listen = absl::StrSplit(addresses, ',');
  std::vector<int> ports(listen.size(), 0);
  for (size_t i = 0; i < listen.size(); ++i) {
    const bool plain = tls.certificate.empty() || absl::StartsWith(listen[i], "unix:");
    builder.AddListeningPort(
        listen[i],
        plain ? grpc::InsecureServerCredentials() : histogram::server::MakeTlsCredentials(tls),
        &ports[i]);
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "histogram-sink: cannot listen on %s\n", addresses.c_str());
    return 1;
  }
  if (queue_sink != nullptr) queue_sink->Start();
  const std::string aside = port_file + ".new";
  std::ofstream out(aside);
  for (size_t i = 0; i < listen.size(); ++i) {
    const bool is_unix = absl::StartsWith(listen[i], "unix:");
    out << "address="
        << (is_unix ? listen[i]
                    : listen[i].substr(0, listen[i].rfind(':') + 1) + std::to_string(ports[i]))
        << "\n";
  }
  out.close();
  std::rename(aside.c_str(), port_file.c_str());
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  int signal = 0;
  sigwait(&stop, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  if (queue_sink != nullptr) queue_sink->Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const bool queues = absl::EndsWith(kind, "-queues");
  const bool null = absl::StartsWith(kind, "null");
  if ((argc != 5 && argc != 7) ||
      kind != std::string(null ? "null" : "touch") + (queues ? "-queues" : "")) {
    std::fputs(
        "usage: histogram-sink null|touch|null-queues|touch-queues cpu|cuda ADDRESS[,ADDRESS...] "
        "PORT_FILE [CERTIFICATE KEY]\n",
        stderr);
    return 2;
  }
  if (queues) histogram::server::ChoosePolling();
  histogram::server::TuneMalloc();
  histogram::server::TuneMutexes();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  histogram::server::TlsFiles tls;
  if (argc == 7) tls = {.certificate = argv[5], .key = argv[6], .client_ca = {}};
  if (null) return Serve(argv[3], argv[4], tls, nullptr, queues);
  histogram::BackendOptions options;
  const bool cuda = std::strcmp(argv[2], "cuda") == 0;
  options.choice =
      cuda ? histogram::BackendOptions::Choice::kCuda : histogram::BackendOptions::Choice::kCpu;
  auto set = histogram::MakeBackends(options);
  if (!set.ok()) {
    std::fprintf(stderr, "histogram-sink: %s\n", std::string(set.status().message()).c_str());
    return 1;
  }
  return Serve(argv[3], argv[4], tls, TouchWith(*set->backends.front()), queues);
}
