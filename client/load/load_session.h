// What the workers of a load run share: the request's bytes, the expected answer, and the tally.
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/load/load_generator.h"
#include "client/load/load_queues.h"

namespace histogram::client {

using LoadClock = std::chrono::steady_clock;
using RawStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

// Adds the bearer token, if any, to a call.
void Authorize(const LoadOptions& options, grpc::ClientContext& rpc);

// The bytes of requests, and the bytes with which right answers begin.
class LoadMessages {
 public:
  // `float_bins`: see LoadOptions.
  explicit LoadMessages(const std::string& payload, uint32_t float_bins = 0);

  grpc::ByteBuffer Compute() const { return Framed(payload_prefix_); }
  grpc::ByteBuffer ComputeMany(uint64_t id) const;
  grpc::ByteBuffer AccumulateChunk() const { return Framed(payload_prefix_); }

  // Whether the reply holds the payload's counts.
  bool IsComputeReply(const grpc::ByteBuffer& reply) const;
  enum class Verdict : uint8_t { kRight, kWrong, kError };
  // The same for a reply of ComputeMany; also returns its id. kError: the reply is an error.
  Verdict JudgeComputeManyReply(const grpc::ByteBuffer& reply, uint64_t& id) const;
  // REQUIRES: the verdict on `reply` is kError.
  static grpc::Status ErrorOf(const grpc::ByteBuffer& reply);
  // Whether the reply is the final one, with the counts of `chunks` chunks.
  bool IsAccumulateReply(const grpc::ByteBuffer& reply, uint64_t chunks) const;

 private:
  grpc::ByteBuffer Framed(const std::string& prefix) const;

  grpc::Slice payload_;         // shared by all requests
  std::string payload_prefix_;  // the spec, and tag and length of ComputeRequest.payload
  std::string expected_;        // ComputeResponse.histogram as it begins the reply
  std::vector<uint64_t> counts_;
};

// The results so far. Thread-safe. Records only during the measured time.
class LoadTally {
 public:
  void Answered(LoadClock::time_point since, bool with_latency);
  void Failed(const std::string& message);
  void Failed(const grpc::Status& status);  // RESOURCE_EXHAUSTED is called refused
  // Records the latency of a refused unary call: refusals should be immediate.
  void Refused(LoadClock::time_point since);
  void Wrong();

  void StartMeasuring(LoadClock::time_point now);
  // Returns all that is recorded so far. `interval` gets the latencies since the last call.
  LoadResult Collect(LatencyRecorder* interval);

 private:
  struct alignas(64) Shard {
    absl::Mutex mu;
    LatencyRecorder total ABSL_GUARDED_BY(mu);
    LatencyRecorder interval ABSL_GUARDED_BY(mu);
    uint64_t requests ABSL_GUARDED_BY(mu) = 0;
  };
  static constexpr size_t kShards = 16;

  Shard shards_[kShards];
  std::atomic<bool> measuring_{false};
  std::atomic<int64_t> start_ns_{0};
  absl::Mutex mu_;
  uint64_t errors_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t wrong_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t unavailable_ ABSL_GUARDED_BY(mu_) = 0;
  struct Message {
    std::string text;
    uint64_t count = 0;
  };
  // By the text without its numbers. Messages that differ only in numbers count as the first of
  // them.
  std::map<std::string, Message> messages_ ABSL_GUARDED_BY(mu_);
  LatencyRecorder refusals_ ABSL_GUARDED_BY(mu_);
};

// Puts load on one method of the API. Start begins. After Stop it begins no more requests. Join
// waits for the requests that it has begun.
class LoadWorker {
 public:
  virtual ~LoadWorker() = default;
  virtual void Start() = 0;
  virtual void Stop() = 0;
  virtual void Join() = 0;
};

struct LoadContext {
  const LoadOptions& options;
  const LoadMessages& messages;
  LoadTally& tally;
  std::vector<std::unique_ptr<RawStub>>& stubs;  // one a connection
  const LoadQueues& queues;
};

std::unique_ptr<LoadWorker> MakeUnaryLoad(LoadContext context);
std::unique_ptr<LoadWorker> MakeStreamLoad(LoadContext context);  // ComputeMany
std::unique_ptr<LoadWorker> MakeAccumulateLoad(LoadContext context);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_
