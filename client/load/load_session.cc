#include "client/load/load_session.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::client {
namespace {

using google::protobuf::io::CodedInputStream;

// Whether `bytes` goes on with `expected`.
bool GoesOnWith(CodedInputStream& bytes, absl::string_view expected) {
  const void* data = nullptr;
  int size = 0;
  while (!expected.empty() && bytes.GetDirectBufferPointer(&data, &size)) {
    const size_t n = std::min(static_cast<size_t>(size), expected.size());
    if (std::memcmp(data, expected.data(), n) != 0) return false;
    expected.remove_prefix(n);
    bytes.Skip(static_cast<int>(n));
  }
  return expected.empty();
}

constexpr double kFloatsUpTo = 4;

// Ranges with different numbers differ, and each holds the same samples. They are so many that no
// cache holds all. Their steps are units in the last place.
constexpr uint32_t kRanges = 1 << 16;
constexpr double kRangeStep = 0x1p-50;

v1::Spec SpecOf(uint32_t float_bins, uint32_t range = 0) {
  v1::Spec spec;
  if (float_bins == 0) return spec;
  spec.set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
  v1::Binning::Even& even = *spec.mutable_binning()->mutable_even();
  even.set_bin_count(float_bins);
  even.set_lower(-kFloatsUpTo - (range % kRanges) * kRangeStep);
  even.set_upper(kFloatsUpTo);
  return spec;
}

// By the edges, as the API defines them.
void CountFloats(const std::string& payload, uint32_t bins, v1::Histogram& histogram) {
  std::vector<double> edges;
  for (uint32_t i = 0; i < bins; ++i) edges.push_back(i * (2 * kFloatsUpTo / bins) - kFloatsUpTo);
  edges.push_back(kFloatsUpTo);
  histogram.mutable_counts()->Resize(static_cast<int>(bins), 0);
  for (size_t i = 0; i < payload.size(); i += sizeof(float)) {
    float sample = 0;
    std::memcpy(&sample, payload.data() + i, sizeof(sample));
    if (sample < edges.front()) {
      histogram.set_below(histogram.below() + 1);
    } else if (sample > edges.back()) {
      histogram.set_above(histogram.above() + 1);
    } else {
      const auto above = std::upper_bound(edges.begin(), edges.end() - 1, double{sample});
      ++histogram.mutable_counts()->at(static_cast<int>(above - edges.begin()) - 1);
    }
  }
  histogram.set_samples(payload.size() / sizeof(float));
}

}  // namespace

LoadClock::time_point After(LoadClock::time_point begin, double seconds) {
  // Thirty years are for ever, and fit.
  const std::chrono::duration<double> bounded(std::min(seconds, 1e9));
  return begin + std::chrono::duration_cast<LoadClock::duration>(bounded);
}

bool SleepUntil(LoadClock::time_point end, const std::function<bool()>& stop) {
  constexpr auto kStep = std::chrono::milliseconds(50);
  while (true) {
    if (stop()) return true;
    const auto now = LoadClock::now();
    if (now >= end) return false;
    std::this_thread::sleep_for(std::min<LoadClock::duration>(kStep, end - now));
  }
}

LoadMessages::LoadMessages(const std::string& payload, uint32_t float_bins, bool new_ranges)
    : new_ranges_of_(new_ranges ? float_bins : 0),
      payload_(payload),
      spec_(SpecOf(float_bins).SerializeAsString()) {
  v1::ComputeResponse response;
  v1::Histogram& histogram = *response.mutable_histogram();
  if (float_bins > 0) {
    CountFloats(payload, float_bins, histogram);
  } else {
    histogram.mutable_counts()->Resize(256, 0);
    for (const char c : payload) ++histogram.mutable_counts()->at(static_cast<uint8_t>(c));
    histogram.set_samples(payload.size());
  }
  counts_.assign(histogram.counts().begin(), histogram.counts().end());
  expected_ = response.SerializeAsString();
}

std::string LoadMessages::Spec() const {
  if (new_ranges_of_ == 0) return spec_;
  const uint32_t range = next_range_.fetch_add(1, std::memory_order_relaxed);
  return SpecOf(new_ranges_of_, range).SerializeAsString();
}

bool LoadMessages::IsComputeReply(grpc::ByteBuffer& reply) const {
  grpc::ProtoBufferReader bytes(&reply);
  CodedInputStream in(&bytes);
  return GoesOnWith(in, expected_);
}

LoadMessages::Verdict LoadMessages::JudgeComputeManyReply(grpc::ByteBuffer& reply,
                                                          uint64_t& id) const {
  constexpr uint32_t kIdTag = v1::ComputeManyResponse::kRequestIdFieldNumber << 3;
  constexpr uint32_t kResponseTag = v1::ComputeManyResponse::kResponseFieldNumber << 3 | 2;
  grpc::ProtoBufferReader bytes(&reply);
  CodedInputStream in(&bytes);
  id = 0;
  uint32_t tag = in.ReadTag();
  if (tag == kIdTag) tag = in.ReadVarint64(&id) ? in.ReadTag() : 0;
  uint32_t length = 0;
  if (tag != kResponseTag || !in.ReadVarint32(&length)) return Verdict::kError;
  return GoesOnWith(in, expected_) ? Verdict::kRight : Verdict::kWrong;
}

grpc::Status LoadMessages::ErrorOf(grpc::ByteBuffer& reply) {
  v1::ComputeManyResponse response;
  grpc::ProtoBufferReader bytes(&reply);
  if (!response.ParseFromZeroCopyStream(&bytes) || !response.has_error()) {
    return {grpc::StatusCode::INTERNAL, "a reply was neither a response nor an error"};
  }
  const v1::Error& error = response.error();
  return {static_cast<grpc::StatusCode>(error.code()), error.message()};
}

bool LoadMessages::IsAccumulateReply(grpc::ByteBuffer& reply, uint64_t chunks) const {
  v1::AccumulateResponse response;
  grpc::ProtoBufferReader bytes(&reply);
  if (!response.ParseFromZeroCopyStream(&bytes) || !response.final()) return false;
  const auto& counts = response.histogram().counts();
  return std::equal(counts.begin(), counts.end(), counts_.begin(), counts_.end(),
                    [&](uint64_t have, uint64_t one) { return have == one * chunks; });
}

namespace {
std::string WithoutNumbers(std::string text) {
  const auto in_number = [](char a, char b) { return a == '#' && b == '#'; };
  std::replace_if(text.begin(), text.end(), absl::ascii_isdigit, '#');
  text.erase(std::unique(text.begin(), text.end(), in_number), text.end());
  return text;
}

uint64_t NsSince(LoadClock::time_point since) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::nanoseconds(LoadClock::now() - since).count()));
}
}  // namespace

void LoadTally::Answered(LoadClock::time_point since, bool with_latency) {
  if (!measuring()) return;
  const uint64_t ns = NsSince(since);
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  Shard& shard = shards_[mine % kShards];
  absl::MutexLock lock(&shard.mu);
  ++shard.requests;
  // An answer counts when it comes; its latency only if all of it lies in the measured time.
  if (!with_latency || since < start()) return;
  shard.latency.Record(ns);
}

void LoadTally::Failed(const grpc::Status& status, std::optional<LoadClock::time_point> since) {
  if (!measuring()) return;
  StreamFailed(status);
  if (!since.has_value() || status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return;
  absl::MutexLock lock(&mu_);
  result_.refusals.Record(NsSince(*since));
}

void LoadTally::StreamFailed(const grpc::Status& status) {
  constexpr size_t kMessagesMax = 16;
  std::string message = status.error_message().empty()
                            ? absl::StrCat("gRPC's status ", status.error_code())
                            : status.error_message();
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) message.insert(0, "refused: ");
  const std::string shape = WithoutNumbers(message);
  absl::MutexLock lock(&mu_);
  ++result_.errors;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) ++result_.unavailable;
  if (first_messages_.size() == kMessagesMax && !first_messages_.contains(shape)) return;
  ++result_.error_messages[first_messages_.try_emplace(shape, message).first->second];
}

void LoadTally::Wrong() {
  StreamFailed({grpc::StatusCode::UNKNOWN, "a reply's counts were not the expected ones"});
  absl::MutexLock lock(&mu_);
  ++result_.wrong;
}

void LoadTally::StartMeasuring(LoadClock::time_point now) {
  start_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  measuring_.store(true, std::memory_order_release);
}

LoadResult LoadTally::Collect() {
  absl::MutexLock lock(&mu_);
  result_.begun = begun_.load(std::memory_order_relaxed);
  for (Shard& shard : shards_) {
    absl::MutexLock of_shard(&shard.mu);
    result_.requests += std::exchange(shard.requests, 0);
    result_.latency.Merge(std::exchange(shard.latency, LatencyRecorder()));
  }
  return result_;
}

size_t QueuesFor(size_t connections) {
  return std::clamp<size_t>(connections, 1, std::max(1U, std::thread::hardware_concurrency()));
}

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
