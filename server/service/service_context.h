// State that the calls of one server share. Everything here outlives the gRPC server.
#ifndef HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
#define HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "server/base/cells.h"
#include "server/base/clock.h"
#include "server/base/memory.h"
#include "server/base/observer.h"
#include "server/base/thresholds.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/request/admit.h"
#include "server/request/answer.h"
#include "server/rpc/call_guard.h"
#include "server/rpc/event_loop.h"
#include "server/rpc/grpc_internals.h"
#include "server/service/authenticator.h"

namespace histogram::server {

class ServedStream;

// A job of a call, and what is posted to the call's loop once the job is done elsewhere.
class LoopJob : public Job, public Posted {
 public:
  // Payload, counters and reply are small. The loop makes the reply then: a lane has the next batch
  // to count.
  bool is_small() const {
    return std::max(bytes, charge_bytes - bytes) <= kSmallBytesMax && phases == nullptr;
  }
  // The job waits for room in the queue (kWaiting), or the batcher did not take it (an error). Not
  // called for other outcomes. On the loop's thread, within Take or later.
  virtual void Entered(const absl::StatusOr<Batcher::Outcome>& outcome) = 0;
};

// The way of a loop's payloads into the batcher. Small jobs for the queue wait until the loop runs
// dry. Then they enter together, under one lock, and batches form of them. Larger ones enter at
// once.
//
// 4 KiB over eight connections to an H200, each job by itself with a reply made by the lane
// (be8a952), and so (6192b77): Compute 0.52 and 0.63 of the throughput of --backend cpu,
// ComputeMany 0.35 and 0.64 (bench/service/run.py).
//
// Belongs to its loop's thread. The batcher outlives it.
class Intake final : private Posted {
 public:
  Intake(Batcher& batcher, EventLoop& loop) : batcher_(batcher), loop_(loop) {}

  // Counts the job here and returns true, or sees to it that it enters the queue. Once a job that
  // is for_lane is back, the loop is to be told (EventLoop::HandedBack).
  bool Take(LoopJob& job, Batcher::WhenFull when_full) {
    job.for_lane = loop_.HandOver(job.bytes);
    if (batcher_.Count(&job)) return true;
    arrivals_.push_back({.job = &job, .when_full = when_full});
    if (job.for_lane || !job.is_small()) {
      Enter();
    } else if (!std::exchange(asked_, true)) {
      loop_.WhenDry(*this);
    }
    return false;
  }

 private:
  // From the loop: nothing else waits in it.
  void Run() override {
    asked_ = false;
    if (!arrivals_.empty()) Enter();
  }
  void Enter() {
    entering_.swap(arrivals_);
    batcher_.Enqueue(absl::MakeSpan(entering_));
    for (const auto& [job, when_full, outcome] : entering_) {
      // A job in the queue may be done by now, and wait in the loop.
      if (outcome.ok() && *outcome == Batcher::Outcome::kQueued) continue;
      static_cast<LoopJob*>(job)->Entered(outcome);
    }
    entering_.clear();
  }

  Batcher& batcher_;
  EventLoop& loop_;
  std::vector<Batcher::Arrival> arrivals_, entering_;
  bool asked_ = false;  // the loop will say when it runs dry
};

// What the calls of one event loop share. Of the loop's thread.
struct LoopContext {
  LoopContext(Batcher& batcher, EventLoop& loop) : intake(batcher, loop) {}

  Intake intake;
  absl::flat_hash_set<ServedStream*> streams;  // that are open
  bool draining = false;
};

struct ServiceContext {
  const TransportConfig config;
  Batcher& batcher;
  Clock& clock;
  Observer& observer;
  const ReceiveMemory* const receive_memory;  // what connections are read into; null: gRPC's own

  std::unique_ptr<Authenticator> authenticator{};  // null: no tokens; set before the server starts
  std::function<std::string()> describe{};         // the answer to Describe; likewise
  std::vector<std::unique_ptr<LoopContext>> loops{};  // by the loop's index; likewise
  RawService methods{};                               // of histogram.v1.HistogramService, by Method
  const AdmissionLimits limits{
      config.payload_bytes_max,
      {config.bin_count_max, batcher.counters_max(), batcher.phase_limits(), batcher.has_cpu()}};
  Verifier verifier{config.verify_fraction};
  MemoryLedger memory{config.receive_bytes_max, receive_memory};
  CallGuard guard{memory, clock};
  // The calls that are not over, and of these the streams. The thread of a call's loop adds the
  // call, and takes it off. A shutdown ends soon after there is none left.
  enum Open : Cell { kCalls, kStreams };
  Cells open{2};
};

inline LoopContext& ContextOf(ServiceContext& service, const EventLoop& loop) {
  return *service.loops[loop.index()];
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_SERVICE_CONTEXT_H_
