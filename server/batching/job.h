// One payload on its way through the batcher.
#ifndef HISTOGRAM_SERVER_BATCHING_JOB_H_
#define HISTOGRAM_SERVER_BATCHING_JOB_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/batch.h"
#include "kernels/workload.h"
#include "server/base/clock.h"

namespace histogram::server {

// Counters of typed samples beyond so many are given back after each use.
inline constexpr size_t kSlotsKeptMax = 8192;

// The caller owns the job and keeps it, its fragments and the bytes they point to alive and
// unchanged until Done has been called or Enqueue has returned kCounted. The batcher touches a job
// from Enqueue up to then and never after, so Done may delete it, or enqueue it again. The one
// exception is a lane that hangs: it may read the payload (not the job) after Done, if SharePayload
// allowed that.
class Job {
 public:
  virtual ~Job() = default;

  // --- Set by the caller before Enqueue.
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;         // of payload: the sum of the fragments' sizes
  uint64_t charge_bytes = 0;  // what the queue is charged: payload and reply
  // Counts the payload instead of a kernel, as a whole and alone; it holds the outcome then.
  std::shared_ptr<PayloadWork> work;
  std::optional<Plan> plan;  // of typed samples; absent: bytes
  TimeNs deadline = kNever;
  uint64_t caller = 0;    // for fairness: authenticated identity, else connection
  bool for_lane = false;  // a lane counts it, not the thread in Enqueue, whatever inline_bytes_max
  // Owns the fragments and their bytes; may be empty. See SharePayload.
  std::shared_ptr<const void> payload_owner;

  // Set by any thread at any time: the result is no longer wanted. A job that is cancelled before
  // it is dispatched costs no work; Done(CANCELLED) is still called.
  std::atomic<bool> cancelled{false};

  // --- Filled by the batcher before Done(OK), or kCounted.
  ValueCounts counts{};         // of bytes
  std::vector<uint64_t> slots;  // of typed samples: the plan's bins, and below, above, NaN
  BatchReport report;           // of the (last) batch that it was part of
  TimeNs enqueued_at = 0;
  uint64_t queue_ns = 0;  // from Enqueue to dispatch (of its first part)

  // A lane that reads this payload hangs, and the batcher wants to finish the job without it.
  // Returns what keeps `fragments` and the bytes they point to alive and unchanged: from now on
  // they stay so until the caller has let go of them (after Done) and all that was returned here
  // has been dropped, which may be never. What the batcher holds is a lasting cost only where a
  // lane hangs; nothing is shared on the normal way. May be called more than once, before Done,
  // without the batcher's lock, while the lane reads: nothing that it reads may move. Null shares
  // nothing: the job then waits for the lane, however long that takes.
  virtual std::shared_ptr<const void> SharePayload() { return payload_owner; }

  // Lets go of the memory of large counts, for jobs that are used again.
  void ForgetCounts() {
    work.reset();
    if (slots.capacity() > kSlotsKeptMax) std::vector<uint64_t>().swap(slots);
  }

  // The job is finished. OK: counts and report are filled. CANCELLED, DEADLINE_EXCEEDED: dropped.
  // UNAVAILABLE, INTERNAL: no backend could execute it. Called exactly once (not for a job that
  // was counted where it arrived), without the batcher's lock, from a lane's thread, the batcher's
  // own, or from within Enqueue (also of another job). Done may call Enqueue; it must not block,
  // nor wait for the batcher.
  virtual void Done(const absl::Status& status) = 0;

 private:
  friend class Admission;
  friend class FairQueue;
  friend class JobList;
  friend class Placer;
  friend class Recovery;
  friend class Scheduler;
  friend class JobTestPeer;  // of the tests

  // The batcher's notes, guarded by its lock.
  struct Notes {
    Job* next = nullptr;      // in the one list that the job is in
    uint64_t dispatched = 0;  // bytes of the payload that were handed to lanes
    uint32_t pieces = 0;      // executing or to be executed again, and one while in the queue
    bool charged_to_caller = false;
    BackendKind kind = BackendKind::kCpu;  // that was preferred when it came into the queue
    absl::Status failure;                  // of the first piece that nothing could execute
  };
  Notes notes_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_JOB_H_
