// A payload on its way through the batcher.
#ifndef HISTOGRAM_SERVER_BATCHING_JOB_H_
#define HISTOGRAM_SERVER_BATCHING_JOB_H_

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/batch.h"
#include "kernels/workload.h"
#include "server/base/clock.h"

namespace histogram::server {

// ForgetCounts frees the memory of more counters than this.
inline constexpr size_t kCountersKeptMax = 8192;

// The caller owns the job. It keeps the job, its fragments and their bytes alive and unchanged
// until Done is called or the calling thread has counted it (kCounted). After that the batcher does
// not touch the job, so Done may delete it or enqueue it again. One exception: a lane that hangs
// may read the payload, not the job, after Done. The batcher holds payload_owner then.
class Job {
 public:
  virtual ~Job() = default;

  // --- Set by the caller before Enqueue.
  absl::Span<const Fragment> fragments;
  uint64_t bytes = 0;         // of the payload: the sum of the fragments' sizes
  uint64_t charge_bytes = 0;  // what the queue is charged: payload, counters, tables and reply
  Plan plan;
  // If set, a lane executes them on the whole payload, alone in its batch. They hold the outcome.
  std::shared_ptr<Phases> phases;
  TimeNs deadline = kNever;
  uint64_t caller = 0;    // for fairness: authenticated identity, else connection
  bool for_lane = false;  // a lane counts it, never the thread in Enqueue
  // Owns the fragments and their bytes. If a lane that reads them hangs, the batcher finishes the
  // job without the lane, and shares the owner until the lane comes back, which it may never do.
  std::shared_ptr<const void> payload_owner;

  // Any thread may set it at any time: nobody wants the result. A job that is cancelled before it
  // is dispatched is not counted. Done(CANCELLED) is still called.
  std::atomic<bool> cancelled{false};

  // --- Filled by the batcher before Done(OK), or kCounted.
  std::vector<uint64_t> counters;  // the plan's
  BatchReport report;              // of its batch, or the last of several
  TimeNs enqueued_at = 0;
  uint64_t queue_ns = 0;  // from Enqueue to the dispatch of its first part that was counted

  // Frees the memory of large counts. For jobs that are used again.
  void ForgetCounts() {
    phases.reset();
    if (counters.capacity() > kCountersKeptMax) std::vector<uint64_t>().swap(counters);
  }

  // The job is finished. OK: counts and report are filled. CANCELLED, DEADLINE_EXCEEDED: it was
  // dropped. UNAVAILABLE, INTERNAL: no backend could execute it. Called exactly once, unless
  // the calling thread counted it, without the batcher's lock: on a thread of a backend, on the
  // batcher's thread, or within Enqueue of any job. Done may call Enqueue. It must not block or
  // wait for the batcher.
  virtual void Done(const absl::Status& status) = 0;

 private:
  friend class Admission;
  friend class FairQueue;
  friend class JobList;
  friend class Placer;
  friend class Scheduler;
  friend class JobTestPeer;  // of the tests

  // The batcher's notes, guarded by its lock.
  struct Notes {
    Job* next = nullptr;                   // in the list that holds the job
    uint64_t dispatched = 0;               // bytes of the payload that went to lanes
    uint32_t pieces = 0;                   // unfinished pieces, and 1 while the job is in the queue
    bool charged = false;                  // it has room in the queue
    BackendKind kind = BackendKind::kCpu;  // the preferred kind when it entered the queue
    absl::Status failure;                  // what the job ends with, once it is known
    // Of the backends that failed it, one bit for each; then the last of them, and why. `reason` is
    // static text: a label of metrics.
    uint64_t failed_on = 0;
    int failed_last = -1;
    std::string_view reason;
    absl::Status error;
    // A piece of it failed: once all are back, it is counted from the beginning.
    bool again = false;
  };
  Notes notes_;
};

// A first-in-first-out list of jobs, linked through the jobs, so that it never allocates. A job is
// in at most one list. Not thread-safe: the batcher's lock guards it.
class JobList {
 public:
  bool empty() const { return first_ == nullptr; }
  Job* front() const { return first_; }

  void PushBack(Job* job) {
    job->notes_.next = nullptr;
    if (last_ == nullptr) {
      first_ = job;
    } else {
      last_->notes_.next = job;
    }
    last_ = job;
  }

  // REQUIRES: !empty().
  Job* PopFront() {
    assert(!empty());
    Job* job = first_;
    first_ = job->notes_.next;
    if (first_ == nullptr) last_ = nullptr;
    job->notes_.next = nullptr;
    return job;
  }

 private:
  Job* first_ = nullptr;
  Job* last_ = nullptr;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_JOB_H_
