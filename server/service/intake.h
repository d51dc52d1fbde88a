// The way of a loop's payloads into the batcher.
//
// Small jobs for the queue wait until the loop runs dry. Then they enter together, under one lock,
// and batches form of them. Larger ones enter at once.
//
// 4 KiB over eight connections to an H200, each job by itself with a reply made by the lane
// (be8a952), and so (6192b77): Compute 0.52 and 0.63 of the throughput of --backend cpu,
// ComputeMany 0.35 and 0.64 (bench/service/run.py).
#ifndef HISTOGRAM_SERVER_SERVICE_INTAKE_H_
#define HISTOGRAM_SERVER_SERVICE_INTAKE_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/thresholds.h"
#include "server/batching/batcher.h"
#include "server/rpc/event_loop.h"

namespace histogram::server {

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

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_SERVICE_INTAKE_H_
