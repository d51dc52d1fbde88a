#include "client/load/load_generator.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/load/load_session.h"

namespace histogram::client {
namespace {

constexpr double kConnectSeconds = 5;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status CheckOptions(const LoadOptions& o) {
  if (o.connections == 0 || o.in_flight == 0) {
    return absl::InvalidArgumentError("connections and in_flight must be at least 1");
  }
  if (!(o.duration_s > 0) || !(o.warm_up_s >= 0) || !(o.rate_per_second >= 0)) {
    return absl::InvalidArgumentError(
        "duration must be positive, warm-up and rate must not be negative");
  }
  if (o.rate_per_second > 0 && o.api != LoadApi::kCompute) {
    return absl::InvalidArgumentError("a rate goes with unary calls (--api compute) only");
  }
  return absl::OkStatus();
}

// Each connection is a channel of its own: equal channels would share one.
absl::StatusOr<std::vector<std::unique_ptr<RawStub>>> Connect(const LoadOptions& options) {
  std::vector<std::unique_ptr<RawStub>> stubs;
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::milliseconds(static_cast<int>(kConnectSeconds * 1000));
  for (uint32_t i = 0; i < options.connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("histogram.load.connection", static_cast<int>(i));
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    const auto channel = grpc::CreateCustomChannel(
        options.server,
        options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
        arguments);
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError(
          absl::StrCat("no server answers at ", options.server, " within ", kConnectSeconds, " s"));
    }
    stubs.push_back(std::make_unique<RawStub>(channel));
  }
  return stubs;
}

std::unique_ptr<LoadWorker> MakeWorker(LoadApi api, LoadContext context) {
  switch (api) {
    case LoadApi::kCompute:
      return MakeUnaryLoad(context);
    case LoadApi::kComputeMany:
      return MakeStreamLoad(context);
    case LoadApi::kAccumulate:
      return MakeAccumulateLoad(context);
  }
  return nullptr;
}

double SecondsSince(LoadClock::time_point begin) {
  return std::chrono::duration<double>(LoadClock::now() - begin).count();
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  auto payload = MakePayload(options.distribution, options.payload_bytes);
  if (!payload.ok()) return payload.status();
  auto stubs = Connect(options);
  if (!stubs.ok()) return stubs.status();

  const LoadMessages messages(*payload);
  LoadTally tally;
  const LoadQueues queues(stubs->size());
  const auto worker = MakeWorker(options.api, {options, messages, tally, *stubs, queues});
  worker->Start();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.warm_up_s));
  const auto begin = LoadClock::now();
  const double cpu_before = CpuSeconds();
  tally.StartMeasuring(begin);
  for (double left = options.duration_s; left > 0;
       left = options.duration_s - SecondsSince(begin)) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(1.0, left)));
    if (options.on_progress) {
      LoadProgress progress;
      const LoadResult so_far = tally.Collect(&progress.latency);
      progress.seconds = SecondsSince(begin);
      progress.requests = so_far.requests;
      progress.errors = so_far.errors;
      options.on_progress(progress);
    }
  }
  LoadResult result = tally.Collect(nullptr);
  result.seconds = SecondsSince(begin);
  result.client_cpu_seconds = CpuSeconds() - cpu_before;
  worker->Stop();
  worker->Join();
  const LoadResult after = tally.Collect(nullptr);  // wrong answers and errors of the end count too
  result.errors = after.errors;
  result.wrong = after.wrong;
  result.error_messages = after.error_messages;
  return result;
}

}  // namespace histogram::client
