// histogram-sink: one of the servers that ours is measured against (sinks.h), as a process of its
// own.
//
//   histogram-sink null-queues|touch-queues|touch ADDRESS[,ADDRESS...] PORT_FILE [CERTIFICATE KEY]
//
// `touch` is the touch sink over gRPC's callbacks. With a certificate and its key (PEM files) the
// TCP addresses speak TLS, as those of the server do.
#include <grpcpp/grpcpp.h>
#include <histogram/usable_cores.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "bench/service/callback_sink.h"
#include "bench/service/queue_sink.h"
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

// One pass by the backend's own choice of kernel.
histogram::bench::Touch TouchWith(Backend& backend) {
  return [&backend](absl::Span<const Fragment> payload, ValueCounts& counts) {
    Batch batch;
    for (const Fragment& f : payload) batch.bytes += f.size();
    batch.items.push_back(
        {.fragments = payload, .bytes = batch.bytes, .counts = absl::MakeSpan(counts)});
    backend.Execute(batch);
  };
}

// Tells where the server listens, all at once.
void WritePortFile(const std::vector<std::string>& listen, const std::vector<int>& ports,
                   const std::string& port_file) {
  const std::string aside = port_file + ".new";
  std::ofstream out(aside);
  for (size_t i = 0; i < listen.size(); ++i) {
    const std::string host = listen[i].substr(0, listen[i].rfind(':') + 1);
    const bool is_unix = absl::StartsWith(listen[i], "unix:");
    out << "address=" << (is_unix ? listen[i] : host + std::to_string(ports[i])) << "\n";
  }
  out.close();
  std::rename(aside.c_str(), port_file.c_str());
}

int Serve(const std::string& addresses, const std::string& port_file,
          const histogram::server::TlsFiles& tls, histogram::bench::Touch touch, bool queues) {
  histogram::server::TransportConfig config;
  grpc::ServerBuilder builder;
  std::unique_ptr<histogram::bench::CallbackSink> callback_sink;
  std::unique_ptr<histogram::bench::QueueSink> queue_sink;
  if (queues) {
    queue_sink = std::make_unique<histogram::bench::QueueSink>(std::move(touch), builder,
                                                               histogram::UsableCores());
  } else {
    callback_sink = std::make_unique<histogram::bench::CallbackSink>(std::move(touch));
    builder.RegisterService(callback_sink.get());
  }
  histogram::server::ApplyTransportSettings(config, builder);
  std::unique_ptr<histogram::server::TlsCertificates> certificates;
  if (!tls.certificate.empty()) {
    auto loaded = histogram::server::TlsCertificates::Load(tls);
    if (!loaded.ok()) {
      std::fprintf(stderr, "histogram-sink: %s\n", std::string(loaded.status().message()).c_str());
      return 1;
    }
    certificates = *std::move(loaded);
  }
  const std::vector<std::string> listen = absl::StrSplit(addresses, ',');
  std::vector<int> ports(listen.size(), 0);
  for (size_t i = 0; i < listen.size(); ++i) {
    const bool plain = tls.certificate.empty() || absl::StartsWith(listen[i], "unix:");
    builder.AddListeningPort(
        listen[i], plain ? grpc::InsecureServerCredentials() : certificates->MakeCredentials(),
        &ports[i]);
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "histogram-sink: cannot listen on %s\n", addresses.c_str());
    return 1;
  }
  if (queue_sink != nullptr) queue_sink->Start();
  WritePortFile(listen, ports, port_file);
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
  if ((argc != 4 && argc != 6) ||
      (kind != "null-queues" && kind != "touch-queues" && kind != "touch")) {
    std::fputs(
        "usage: histogram-sink null-queues|touch-queues|touch ADDRESS[,ADDRESS...] PORT_FILE "
        "[CERTIFICATE KEY]\n",
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
  if (argc == 6) tls = {.certificate = argv[4], .key = argv[5], .client_ca = {}};
  if (kind == "null-queues") return Serve(argv[2], argv[3], tls, nullptr, queues);
  histogram::BackendOptions options;
  options.choice = histogram::BackendOptions::Choice::kCpu;
  auto set = histogram::MakeBackends(options);
  if (!set.ok()) {
    std::fprintf(stderr, "histogram-sink: %s\n", std::string(set.status().message()).c_str());
    return 1;
  }
  return Serve(argv[2], argv[3], tls, TouchWith(*set->backends.front()), queues);
}
