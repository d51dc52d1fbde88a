#include "client/load/load_session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/varint.h"
#include "histogram/v1/histogram.pb.h"

namespace histogram::client {
namespace {

std::string LengthPrefix(int field, uint64_t length) {
  std::string prefix;
  AppendLengthPrefix(prefix, field, length);
  return prefix;
}

std::string Join(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return {};
  std::string bytes;
  for (const grpc::Slice& s : slices) {
    bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return bytes;
}

// Whether the message continues with `expected` from `offset` on, without copying it.
bool HasAt(const grpc::ByteBuffer& message, size_t offset, const std::string& expected) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return false;
  size_t matched = 0;
  for (const grpc::Slice& s : slices) {
    if (offset >= s.size()) {
      offset -= s.size();
      continue;
    }
    const size_t n = std::min(s.size() - offset, expected.size() - matched);
    if (std::memcmp(s.begin() + offset, expected.data() + matched, n) != 0) return false;
    matched += n;
    offset = 0;
    if (matched == expected.size()) return true;
  }
  return matched == expected.size();
}

// Reads the id and the tag and length before the response of a ComputeManyResponse. False where the
// message does not begin that way (an error reply).
bool ReadManyHeader(const grpc::ByteBuffer& reply, uint64_t& id, size_t& offset) {
  constexpr size_t kHeaderMax = 1 + 10 + 1 + 10;  // two tags and two varints
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok()) return false;
  std::string head;
  for (const grpc::Slice& s : slices) {
    if (head.size() >= kHeaderMax) break;
    head.append(reinterpret_cast<const char*>(s.begin()), std::min(s.size(), kHeaderMax));
  }
  size_t at = 0;
  id = 0;
  uint64_t length = 0;
  if (at < head.size() && head[at] == 0x08) {
    ++at;
    if (!ReadVarint(head, at, id)) return false;
  }
  if (at >= head.size() || head[at++] != 0x12 || !ReadVarint(head, at, length)) return false;
  offset = at;
  return true;
}

constexpr double kFloatsUpTo = 4;

std::string SpecPrefix(uint32_t float_bins) {
  if (float_bins == 0) return {};
  v1::ComputeRequest request;
  request.mutable_spec()->set_sample_type(v1::SAMPLE_TYPE_FLOAT32);
  v1::Binning::Even& even = *request.mutable_spec()->mutable_binning()->mutable_even();
  even.set_bin_count(float_bins);
  even.set_lower(-kFloatsUpTo);
  even.set_upper(kFloatsUpTo);
  return request.SerializeAsString();
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

void Authorize(const LoadOptions& options, grpc::ClientContext& rpc) {
  if (!options.bearer_token.empty())
    rpc.AddMetadata("authorization", "Bearer " + options.bearer_token);
}

LoadMessages::LoadMessages(const std::string& payload, uint32_t float_bins)
    : payload_(payload), payload_prefix_(SpecPrefix(float_bins)) {
  payload_prefix_ += LengthPrefix(v1::ComputeRequest::kPayloadFieldNumber, payload.size());
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

grpc::ByteBuffer LoadMessages::Framed(const std::string& prefix) const {
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(prefix), payload_};
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer LoadMessages::ComputeMany(uint64_t id) const {
  std::string prefix;
  if (id != 0) {
    AppendNumberField(prefix, v1::ComputeManyRequest::kRequestIdFieldNumber, id);
  }
  AppendLengthPrefix(prefix, v1::ComputeManyRequest::kRequestFieldNumber,
                     payload_prefix_.size() + payload_.size());
  prefix += payload_prefix_;
  return Framed(prefix);
}

bool LoadMessages::IsComputeReply(const grpc::ByteBuffer& reply) const {
  return HasAt(reply, 0, expected_);
}

LoadMessages::Verdict LoadMessages::JudgeComputeManyReply(const grpc::ByteBuffer& reply,
                                                          uint64_t& id) const {
  size_t offset = 0;
  if (!ReadManyHeader(reply, id, offset)) return Verdict::kError;
  return HasAt(reply, offset, expected_) ? Verdict::kRight : Verdict::kWrong;
}

grpc::Status LoadMessages::ErrorOf(const grpc::ByteBuffer& reply) {
  v1::ComputeManyResponse response;
  if (!response.ParseFromString(Join(reply)) || !response.has_error()) {
    return {grpc::StatusCode::INTERNAL, "a reply was neither a response nor an error"};
  }
  const v1::Error& error = response.error();
  return {static_cast<grpc::StatusCode>(error.code()), error.message()};
}

bool LoadMessages::IsAccumulateReply(const grpc::ByteBuffer& reply, uint64_t chunks) const {
  v1::AccumulateResponse response;
  if (!response.ParseFromString(Join(reply)) || !response.final()) return false;
  const auto& counts = response.histogram().counts();
  return std::equal(counts.begin(), counts.end(), counts_.begin(), counts_.end(),
                    [&](uint64_t have, uint64_t one) { return have == one * chunks; });
}

namespace {
size_t ShardOfThisThread(size_t shards) {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine % shards;
}

std::string WithoutNumbers(const std::string& text) {
  std::string shape;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      shape.push_back(c);
    } else if (shape.empty() || shape.back() != '#') {
      shape.push_back('#');
    }
  }
  return shape;
}

uint64_t NsSince(LoadClock::time_point since) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::nanoseconds(LoadClock::now() - since).count()));
}
}  // namespace

void LoadTally::Answered(LoadClock::time_point since, bool with_latency) {
  if (!measuring_.load(std::memory_order_acquire)) return;
  const uint64_t ns = NsSince(since);
  Shard& shard = shards_[ShardOfThisThread(kShards)];
  absl::MutexLock lock(&shard.mu);
  ++shard.requests;
  // An answer counts when it comes; its latency only if all of it lies in the measured time.
  if (!with_latency ||
      since.time_since_epoch().count() < start_ns_.load(std::memory_order_relaxed)) {
    return;
  }
  shard.total.Record(ns);
  shard.interval.Record(ns);
}

void LoadTally::Failed(const std::string& message) {
  constexpr size_t kMessagesMax = 16;
  const std::string shape = WithoutNumbers(message);
  absl::MutexLock lock(&mu_);
  ++errors_;
  auto it = messages_.find(shape);
  if (it == messages_.end()) {
    if (messages_.size() == kMessagesMax) return;
    it = messages_.emplace(shape, Message{message, 0}).first;
  }
  ++it->second.count;
}

void LoadTally::Failed(const grpc::Status& status) {
  const std::string message = status.error_message().empty()
                                  ? absl::StrCat("gRPC's status ", status.error_code())
                                  : status.error_message();
  const bool refused = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  Failed(refused ? "refused: " + message : message);
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return;
  absl::MutexLock lock(&mu_);
  ++unavailable_;
}

void LoadTally::Refused(LoadClock::time_point since) {
  if (!measuring_.load(std::memory_order_acquire)) return;
  const uint64_t ns = NsSince(since);
  absl::MutexLock lock(&mu_);
  refusals_.Record(ns);
}

void LoadTally::Wrong() {
  Failed("a reply's counts were not the expected ones");
  absl::MutexLock lock(&mu_);
  ++wrong_;
}

void LoadTally::StartMeasuring(LoadClock::time_point now) {
  start_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  measuring_.store(true, std::memory_order_release);
}

LoadResult LoadTally::Collect(LatencyRecorder* interval) {
  LoadResult result;
  for (Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mu);
    result.requests += shard.requests;
    result.latency.Merge(shard.total);
    if (interval != nullptr) {
      interval->Merge(shard.interval);
      shard.interval = LatencyRecorder();
    }
  }
  absl::MutexLock lock(&mu_);
  result.errors = errors_;
  result.wrong = wrong_;
  result.unavailable = unavailable_;
  for (const auto& [shape, message] : messages_) {
    result.error_messages[message.text] = message.count;
  }
  result.refusals = refusals_;
  return result;
}

}  // namespace histogram::client
