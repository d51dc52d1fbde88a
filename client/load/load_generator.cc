#include "client/load/load_generator.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/load/load_session.h"

namespace histogram::client {
namespace {

constexpr absl::Duration kConnectTime = absl::Seconds(5);

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::Status CheckOptions(const LoadOptions& o) {
  if (o.rate_per_second > 0 && o.api != LoadApi::kCompute) {
    return absl::InvalidArgumentError("--rate: possible with Compute only (--api compute)");
  }
  if (o.new_ranges && o.api == LoadApi::kAccumulate) {
    return absl::InvalidArgumentError(
        "the chunks of Accumulate share a range (--new-ranges: with --api compute or "
        "compute-many)");
  }
  if (o.float_bins > 0 && o.payload_bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--payload-bytes: ", o.payload_bytes, " is not a whole number of floats"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<RawStub>>> Connect(const LoadOptions& options) {
  std::vector<std::unique_ptr<RawStub>> stubs;
  const absl::Time deadline = absl::Now() + kConnectTime;
  for (uint32_t i = 0; i < options.connections; ++i) {
    const auto channel = MakeBareChannel(options.server, options.connect);
    if (!channel->WaitForConnected(absl::ToChronoTime(deadline))) {
      return absl::UnavailableError(absl::StrCat("no server answers at ", options.server,
                                                 " within ", absl::FormatDuration(kConnectTime)));
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
    const LoadResult so_far = tally.Collect();
    const bool lost = so_far.unavailable > 0 && so_far.requests == answered;
    if (lost || LoadClock::now() >= end) return false;
    answered = so_far.requests;
  }
}

// Deterministic.
std::string MakePayload(const LoadOptions& options) {
  std::string payload(options.payload_bytes, '\0');
  std::mt19937_64 random(options.payload_bytes + 1);
  if (options.float_bins == 0) {
    for (char& c : payload) c = static_cast<char>(random());
    return payload;
  }
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < payload.size(); i += sizeof(float)) {
    const float sample = normal(random);
    std::memcpy(payload.data() + i, &sample, sizeof(sample));
  }
  return payload;
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  const size_t threads = 2 * QueuesFor(options.connections);  // of queues and of schedules
  if (absl::Status s = CheckThreads(threads); !s.ok()) return s;
  // Each thread waits by a descriptor of its own.
  const size_t descriptors = options.connections + threads + kGrpcDescriptors;
  if (absl::Status s = CheckDescriptors(descriptors); !s.ok()) return s;
  auto stubs = Connect(options);
  if (!stubs.ok()) return stubs.status();

  const LoadMessages messages(MakePayload(options), options.float_bins, options.new_ranges);
  LoadTally tally;
  std::deque<LoadQueue> queues(QueuesFor(stubs->size()));
  const LoadContext context = {options, messages, tally, *stubs, queues};
  std::vector<std::unique_ptr<LoadWorker>> workers;
  if (options.api == LoadApi::kCompute) {
    workers.push_back(MakeUnaryLoad(context));
  } else {
    for (size_t i = 0; i < stubs->size(); ++i) workers.push_back(MakeStreamLoad(context, i));
  }
  double seconds = 0, cpu_seconds = 0;
  bool stopped = false;
  // Without a warm-up every request is measured, the first ones too.
  if (options.warm_up_s > 0) {
    for (const auto& worker : workers) worker->Start();
    stopped = SleepUntil(After(LoadClock::now(), options.warm_up_s), options.stop);
  }
  if (!stopped) {
    const auto begin = LoadClock::now();
    const double cpu_before = CpuSeconds();
    tally.StartMeasuring(begin);
    for (const auto& worker : workers) {
      if (options.warm_up_s <= 0) worker->Start();
    }
    stopped = Measure(options, tally, begin);
    tally.StopMeasuring();
    seconds = SecondsSince(begin);
    cpu_seconds = CpuSeconds() - cpu_before;
  }
  for (const auto& worker : workers) worker->Stop();
  for (const auto& worker : workers) worker->Join();
  LoadResult result = tally.Collect();
  result.seconds = seconds;
  result.client_cpu_seconds = cpu_seconds;
  result.stopped = stopped;
  return result;
}

}  // namespace histogram::client
