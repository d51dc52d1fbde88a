// One payload on its way through the batcher.
#ifndef HISTOGRAM_SERVER_BATCHING_JOB_H_
#define HISTOGRAM_SERVER_BATCHING_JOB_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/batch.h"
#include "kernels/workload.h"
#include "server/batching/clock.h"

namespace histogram::server {

// The caller owns the job and keeps it, its fragments and the bytes they point to alive and unchanged
// until Done has been called. The batcher touches a job from Enqueue (where it returned kQueued or
// kWaiting) up to the call of Done and never after, so Done may delete it.
class Job {
 public:
  virtual ~Job() = default;

  // --- Set by the caller before Enqueue.
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;         // of payload: the sum of the fragments' sizes
  uint64_t charge_bytes = 0;  // what the queue is charged: payload and reply
  uint32_t bin_count = kByteValues;
  TimeNs deadline = kNever;
  uint64_t caller = 0;  // identity for fairness: authenticated identity, else connection

  // Set by any thread at any time: the result is no longer wanted. A job that is cancelled before it
  // is dispatched costs no work; Done(CANCELLED) is still called.
  std::atomic<bool> cancelled{false};

  // --- Filled by the batcher before Done(OK).
  ValueCounts counts{};
  BatchReport report;  // of the (last) batch that it was part of
  TimeNs enqueued_at = 0;
  uint64_t queue_ns = 0;  // from Enqueue to dispatch (of its first part)

  // A job that was told kWaiting has moved into the queue: there is room for the stream to read on.
  // Called at most once, before Done, without the batcher's lock.
  virtual void Admitted() {}

  // The job is finished. OK: counts and report are filled. CANCELLED, DEADLINE_EXCEEDED: dropped.
  // UNAVAILABLE, INTERNAL: no backend could execute it. Called exactly once, without the batcher's
  // lock, from a lane's thread or (a payload counted where it arrives) from within Enqueue.
  virtual void Done(const absl::Status& status) = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_JOB_H_
