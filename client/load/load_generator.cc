#include "client/load/load_generator.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "client/load/load_session.h"

namespace histogram::client {
namespace {

constexpr double kConnectSeconds = 5;

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::Status CheckOptions(const LoadOptions& o) {
  if (o.rate_per_second > 0 && o.api != LoadApi::kCompute) {
    return absl::InvalidArgumentError("a rate is possible with Compute only (--api compute)");
  }
  if (o.float_bins > 0 && o.payload_bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a payload of ", o.payload_bytes, " bytes is not a whole number of floats"));
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
    if (!options.tls_server_name.empty()) {
      arguments.SetSslTargetNameOverride(options.tls_server_name);
    }
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    const auto channel = grpc::CreateCustomChannel(options.server, options.credentials, arguments);
    if (!channel->WaitForConnected(deadline)) {
      return absl::UnavailableError(
          absl::StrCat("no server answers at ", options.server, " within ", kConnectSeconds, " s"));
    }
    stubs.push_back(std::make_unique<RawStub>(channel));
  }
  return stubs;
}

double SecondsSince(LoadClock::time_point begin) {
  return std::chrono::duration<double>(LoadClock::now() - begin).count();
}

// Returns whether it was told to stop. Without a server it returns early.
bool Measure(const LoadOptions& options, LoadTally& tally, LoadClock::time_point begin) {
  const auto end = After(begin, options.duration_s);
  uint64_t answered = 0;
  while (true) {
    const auto next = LoadClock::now() + std::chrono::seconds(1);
    if (SleepUntil(std::min(next, end), options.stop)) return true;
    LoadProgress progress;
    const LoadResult so_far = tally.Collect(&progress.latency);
    progress.seconds = SecondsSince(begin);
    progress.requests = so_far.requests;
    progress.errors = so_far.errors;
    options.on_progress(progress);
    const bool lost = so_far.unavailable > 0 && so_far.requests == answered;
    if (lost || LoadClock::now() >= end) return false;
    answered = so_far.requests;
  }
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  const std::string payload = options.float_bins > 0
                                  ? MakeFloatPayload(options.payload_bytes)
                                  : MakePayload(options.distribution, options.payload_bytes);
  auto stubs = Connect(options);
  if (!stubs.ok()) return stubs.status();

  const LoadMessages messages(payload, options.float_bins);
  LoadTally tally;
  const LoadQueues queues(stubs->size());
  const LoadContext context = {options, messages, tally, *stubs, queues};
  const auto worker =
      options.api == LoadApi::kCompute ? MakeUnaryLoad(context) : MakeStreamsLoad(context);
  worker->Start();
  LoadResult result;
  bool stopped =
      options.warm_up_s > 0 && SleepUntil(After(LoadClock::now(), options.warm_up_s), options.stop);
  if (!stopped) {
    const auto begin = LoadClock::now();
    const double cpu_before = CpuSeconds();
    tally.StartMeasuring(begin);
    stopped = Measure(options, tally, begin);
    result = tally.Collect(nullptr);
    result.seconds = SecondsSince(begin);
    result.client_cpu_seconds = CpuSeconds() - cpu_before;
  }
  result.stopped = stopped;
  worker->Stop();
  worker->Join();
  const LoadResult after = tally.Collect(nullptr);  // wrong answers and errors of the end count too
  result.errors = after.errors;
  result.wrong = after.wrong;
  result.unavailable = after.unavailable;
  result.error_messages = after.error_messages;
  return result;
}

}  // namespace histogram::client
