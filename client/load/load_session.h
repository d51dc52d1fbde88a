// State that the workers of a load run share: the request's bytes, the expected answer, the tally,
// and the completion queues.
#ifndef HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_
#define HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/codec.h"
#include "client/load/load_generator.h"

namespace histogram::client {

using LoadClock = std::chrono::steady_clock;
using RawStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

LoadClock::time_point After(LoadClock::time_point begin, double seconds);
// Sleeps until `end`, or until `stop` returns true. Returns whether `stop` did.
bool SleepUntil(LoadClock::time_point end, const std::function<bool()>& stop);

// The bytes of requests, and the bytes with which right answers begin.
class LoadMessages {
 public:
  // `float_bins`, `new_ranges`: see LoadOptions.
  explicit LoadMessages(const std::string& payload, uint32_t float_bins = 0,
                        bool new_ranges = false);

  // Also a chunk of Accumulate: its fields have the same numbers.
  grpc::ByteBuffer Compute() const { return EncodeCompute(Spec(), payload_); }
  grpc::ByteBuffer ComputeMany(uint64_t id) const {
    return EncodeComputeMany(id, Spec(), payload_);
  }

  // Whether the reply holds the payload's counts. No reply is changed.
  bool IsComputeReply(grpc::ByteBuffer& reply) const;
  enum class Verdict : uint8_t { kRight, kWrong, kError };
  // The same for a reply of ComputeMany; also returns its id. kError: the reply is an error.
  Verdict JudgeComputeManyReply(grpc::ByteBuffer& reply, uint64_t& id) const;
  // REQUIRES: the verdict on `reply` is kError.
  static grpc::Status ErrorOf(grpc::ByteBuffer& reply);
  // Whether the reply is the final one, with the counts of `chunks` chunks.
  bool IsAccumulateReply(grpc::ByteBuffer& reply, uint64_t chunks) const;

 private:
  std::string Spec() const;

  const uint32_t new_ranges_of_;  // bins; 0: spec_ is that of all
  mutable std::atomic<uint32_t> next_range_{1};
  grpc::Slice payload_;   // shared by all requests
  std::string spec_;      // serialized
  std::string expected_;  // ComputeResponse.histogram as it begins the reply
  std::vector<uint64_t> counts_;
};

// The results so far. Thread-safe. Records only during the measured time, unless it says otherwise.
class LoadTally {
 public:
  void Begun() { begun_.fetch_add(measuring() ? 1 : 0, std::memory_order_relaxed); }
  void Answered(LoadClock::time_point since, bool with_latency);
  // RESOURCE_EXHAUSTED is called refused. `since`: when a unary call began. The latency of its
  // refusal is recorded, since refusals should be immediate.
  void Failed(const grpc::Status& status,
              std::optional<LoadClock::time_point> since = std::nullopt);
  void StreamFailed(const grpc::Status& status);  // whenever it comes
  void Wrong();                                   // whenever it comes

  void StartMeasuring(LoadClock::time_point now);
  void StopMeasuring() { measuring_.store(false, std::memory_order_release); }
  bool measuring() const { return measuring_.load(std::memory_order_acquire); }
  // When the measured time began. REQUIRES: it has.
  LoadClock::time_point start() const {
    return LoadClock::time_point(LoadClock::duration(start_ns_.load(std::memory_order_relaxed)));
  }
  // All that is recorded so far.
  LoadResult Collect();

 private:
  // What its threads have recorded since the last call of Collect.
  struct alignas(64) Shard {
    absl::Mutex mu;
    LatencyRecorder latency ABSL_GUARDED_BY(mu);
    uint64_t requests ABSL_GUARDED_BY(mu) = 0;
  };
  static constexpr size_t kShards = 16;

  Shard shards_[kShards];
  std::atomic<bool> measuring_{false};
  std::atomic<int64_t> start_ns_{0};
  std::atomic<uint64_t> begun_{0};
  absl::Mutex mu_;
  LoadResult result_ ABSL_GUARDED_BY(mu_);
  // Of each error message without its numbers, the first that came. Messages that differ only in
  // numbers count as that one.
  std::map<std::string, std::string> first_messages_ ABSL_GUARDED_BY(mu_);
};

// Called when an operation is over; gRPC defines `ok` for each operation. Every tag that gRPC gets
// is a LoadEvent*.
using LoadEvent = std::function<void(bool ok)>;

// One queue for each connection, but at most one for each core of the machine.
size_t QueuesFor(size_t connections);

// A completion queue and its thread. A connection belongs to one queue, so one thread handles all
// its events. Callbacks on gRPC's own threads take 1.5 to 4 times the CPU time.
struct LoadQueue {
  // REQUIRES: no operation is under way.
  ~LoadQueue() {
    events.Shutdown();
    thread.join();
  }
  grpc::CompletionQueue events;
  std::thread thread{[this] {
    void* tag = nullptr;
    bool ok = false;
    while (events.Next(&tag, &ok)) (*static_cast<LoadEvent*>(tag))(ok);
  }};
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
  std::deque<LoadQueue>& queues;

  grpc::CompletionQueue* QueueOf(size_t connection) const {
    return &queues[connection % queues.size()].events;
  }
};

// Over all connections.
std::unique_ptr<LoadWorker> MakeUnaryLoad(LoadContext context);
// ComputeMany or Accumulate, as the options say, over one connection.
std::unique_ptr<LoadWorker> MakeStreamLoad(LoadContext context, size_t connection);

}  // namespace histogram::client

#endif  // HISTOGRAM_CLIENT_LOAD_LOAD_SESSION_H_
