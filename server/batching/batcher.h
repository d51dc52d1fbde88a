// Collects payloads into batches and hands these to backends: to the kind that gets more done
// (preference.h), and of that kind to the backend with the most free lanes.
//
// While nothing waits for the CPU, the thread that brings a small payload for it counts that,
// without a lock (inline_gate.h). The batcher holds one credit for each lane. With a free lane and
// no configured delay, any other lone payload leaves at once. Batches form while lanes are busy.
// All methods are thread-safe.
//
// This class has the lock, the hand-over and the thread. Plain classes decide under the lock: which
// lanes are free and which backend a batch goes to (placer.h, preference.h), what is queued and
// what is executed again (scheduler.h, admission.h, fair_queue.h).
#ifndef HISTOGRAM_SERVER_BATCHING_BATCHER_H_
#define HISTOGRAM_SERVER_BATCHING_BATCHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/mutex.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/flight.h"
#include "server/batching/inline_gate.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"
#include "server/batching/placer.h"
#include "server/batching/scheduler.h"
#include "server/batching/snapshot.h"

namespace histogram::server {

class Batcher {
 public:
  // What Enqueue does if the queue has no room for the job.
  enum class WhenFull {
    kRefuse,  // Enqueue fails with RESOURCE_EXHAUSTED (reason QUEUE_FULL, retry_after_ms set)
    kWait,    // the job waits outside the queue for its turn (admission.h)
  };
  enum class Outcome {
    kQueued,   // Done will be called, or was
    kWaiting,  // the same; the caller should bring no more until Done
    kCounted,  // the calling thread counted it: counts and report are filled; no Done
  };

  // A job that Enqueue is given together with others, and what became of it.
  struct Arrival {
    Job* job = nullptr;
    WhenFull when_full = WhenFull::kRefuse;
    absl::StatusOr<Outcome> outcome = Outcome::kQueued;
  };

  using Placement = server::Placement;
  using Snapshot = BatcherSnapshot;

  // `backends`: 1 to 64, in order of preference. They, the clock and the observer outlive the
  // batcher. `start_thread`: run a thread for delays and the watchdog; tests call Pump instead.
  Batcher(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
          Observer& observer, bool start_thread = true);
  // Waits until all accepted jobs are done and every lane has come back.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Takes the job. Done is called exactly once, maybe before Enqueue returns. If the outcome is
  // kCounted, Done is not called, and the job is the caller's again.
  //
  // On an error the job is not taken, and Done is not called:
  // - RESOURCE_EXHAUSTED, reason QUEUE_FULL, with retry_after_ms: with kRefuse only. Callers share
  //   the room (admission.h). A job that would fit is refused if its caller holds too much, or if
  //   it would overtake another job of its caller or a job of a caller that holds nothing.
  // - RESOURCE_EXHAUSTED, reason PAYLOAD_TOO_LARGE: the job alone takes more than queue_bytes_max.
  //   It would wait forever, and block the jobs behind it.
  // - UNAVAILABLE, reason DRAINING: after Drain.
  // Enqueue does not report errors to the observer. Its caller does.
  //
  // Within Done, Enqueue never counts a job on the calling thread.
  absl::StatusOr<Outcome> Enqueue(Job* job, WhenFull when_full);
  // Counts the job on the calling thread, if that may be, as for kCounted. If not, returns false,
  // and the job is the caller's as before.
  bool Count(Job* job);
  // Takes all these jobs, in order, under one lock, so that batches form of them. Fills the
  // outcomes, as above; none is kCounted. REQUIRES: Count returned false for each.
  void Enqueue(absl::Span<Arrival> arrivals);

  // Forms the batches that are due now. Returns the time of the next call; kNever: only after
  // another event.
  TimeNs Pump();

  // The most counters of typed samples of any backend. A job must not need more.
  uint64_t counters_max() const { return most_able().lane_counters; }
  // What phases of a job may need at most.
  const PhaseLimits& phase_limits() const { return most_able().phases; }
  // Whether a CPU counts.
  bool has_cpu() const { return cpu_ != nullptr; }

  // From now on Enqueue fails. Accepted jobs go on.
  void Drain();
  // Waits until no job is queued, waiting or executing and every Done has returned, or until
  // `deadline`. Returns whether all is done. Ignores quarantined batches whose jobs went on
  // elsewhere. Must not be called within Done.
  bool WaitIdle(TimeNs deadline);

  Snapshot snapshot() const;

 private:
  // Backends of one kind are equally able, and the CPU is the most.
  const BackendInfo& most_able() const {
    return (cpu_ != nullptr ? cpu_ : backends_.front())->info();
  }

  // Every entry decides under the lock what to do and notes it in an Outbox. Then it releases the
  // lock and does it (Finish): submits, reports, calls back. An entry with something to do is
  // counted in active_ as long as it will touch this object again. Its last step, under the lock,
  // takes it off: after that, a thread in WaitIdle may destroy the batcher as soon as the lock is
  // free. Pump alone looks at the batcher once more: its caller is not one of those.

  // --- Arrive (batcher.cc)
  // Whether this thread may count the job, if the gate is open.
  bool FitsHere(const Job& job, TimeNs now) const;
  // The calling thread is inside the gate: counts the job, and leaves. False: the CPU failed.
  bool CountHere(Job* job, size_t size_class, TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);

  // --- Dispatch (batcher_dispatch.cc)
  // Pump, as of `now`.
  TimeNs PumpAt(TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  // Forms all batches that are due now.
  void PumpLocked(TimeNs now, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Opens the gate for what may be counted where it arrives.
  void OpenGateLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Submit(Flight* flight) ABSL_LOCKS_EXCLUDED(mu_);
  // The thread's loop. `expected`: the time of its first Pump.
  void RunThread(TimeNs expected) ABSL_LOCKS_EXCLUDED(mu_);

  // --- Finish (batcher_dispatch.cc)
  // The backend is done with the flight.
  void OnDone(Flight* flight, std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes back a flight from its backend, and forms what the lane can do next. True: its counts are
  // valid; deliver it, then recycle it.
  bool TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does what the outbox notes, then takes this thread off active_.
  void Finish(Outbox& outbox) ABSL_LOCKS_EXCLUDED(mu_);
  // Reports backends that went down, and batches that fell back.
  void ReportBackends(const Outbox& outbox);
  void Deliver(Outbox& outbox);
  void Deliver(Flight& flight);
  bool IdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return active_ == 0 && scheduler_.idle();
  }

  // Whether this thread is in a callback of a batcher. It may be a lane's thread, so it must not be
  // given a payload to count; and Done calling Enqueue calling Done must not grow the stack.
  static inline thread_local bool in_callback = false;

  const std::vector<Backend*> backends_;
  Clock& clock_;
  Observer& observer_;
  const BatchingLimits limits_;

  mutable Mutex mu_;
  Placer placer_ ABSL_GUARDED_BY(mu_);
  Scheduler scheduler_ ABSL_GUARDED_BY(mu_);
  // Of what is counted where it arrives.
  Backend* const cpu_;  // null: there is no CPU backend
  const uint64_t inline_bytes_max_;
  InlineGate gate_;

  uint64_t active_ ABSL_GUARDED_BY(mu_) = 0;  // threads that will touch this object again
  CondVar idle_;

  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  TimeNs sleeps_until_ ABSL_GUARDED_BY(mu_) = 0;  // while the thread sleeps; else 0
  CondVar wake_thread_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_H_
