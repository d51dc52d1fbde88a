// The implementation of the batcher. Only its own sources include it.
//
// Every entry decides under the lock what to do and notes it in an Outbox. Then it releases the
// lock and does it (Finish): submits, reports, calls back. An entry is counted in active_ as long
// as it will touch this object again. Its last step, under the lock, takes it off: after that, a
// thread in WaitIdle may destroy the batcher as soon as the lock is free.
#ifndef HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_
#define HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/mutex.h"
#include "server/batching/batcher.h"
#include "server/batching/credits.h"
#include "server/batching/flight.h"
#include "server/batching/inline_gate.h"
#include "server/batching/outbox.h"
#include "server/batching/placer.h"
#include "server/batching/recovery.h"
#include "server/batching/scheduler.h"

namespace histogram::server {

class Batcher::Impl {
 public:
  Impl(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
       Observer& observer);

  uint64_t counters_max() const { return counters_max_; }
  bool runs_work() const { return runs_work_; }
  void StartThread();
  void StopThread();
  // Waits until every lane has come back.
  void AwaitLanes() ABSL_LOCKS_EXCLUDED(mu_);

  absl::StatusOr<Outcome> Enqueue(Job* job, WhenFull when_full) ABSL_LOCKS_EXCLUDED(mu_);
  // `now`: the current time.
  TimeNs Pump(TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  TimeNs Pump() ABSL_LOCKS_EXCLUDED(mu_) { return Pump(clock_.Now()); }
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  bool WaitIdle(TimeNs deadline) ABSL_LOCKS_EXCLUDED(mu_);
  Snapshot TakeSnapshot() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // --- Under the lock
  // Forms all batches that are due now.
  void PumpLocked(TimeNs now, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes back a flight from its backend, and forms what the lane can do next. True: its counts are
  // valid; deliver it, then recycle it.
  bool TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Opens the gate for what may be counted where it arrives.
  void OpenGateLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return active_ == 0 && scheduler_.idle();
  }
  // Takes this thread off active_, as its last step.
  void EndActiveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- Without the lock
  // Does what the outbox notes, then takes this thread off active_.
  void Finish(Outbox& outbox) ABSL_LOCKS_EXCLUDED(mu_);
  void Submit(Flight* flight) ABSL_LOCKS_EXCLUDED(mu_);
  // The backend is done with the flight.
  void OnDone(Flight* flight, std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the job into the queue, or to wait for room.
  absl::StatusOr<Outcome> Queue(Job* job, WhenFull when_full, TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  // Whether this thread may count the job, if the gate is open.
  bool FitsHere(const Job& job, TimeNs now) const;
  // The calling thread is inside the gate: counts the job, or queues it if the CPU fails.
  absl::StatusOr<Outcome> CountHere(Job* job, size_t size_class, WhenFull when_full, TimeNs now)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Reports backends that went down, and batches that fell back.
  void ReportBackends(Outbox& outbox);
  void Deliver(Outbox& outbox);
  void Deliver(Flight& flight);
  // The thread's loop. `expected`: the time of its first Pump.
  void RunThread(TimeNs expected) ABSL_LOCKS_EXCLUDED(mu_);

  const std::vector<Backend*> backends_;
  Clock& clock_;
  Observer& observer_;
  const uint64_t batch_ns_max_;  // the watchdog's limit; 0: none

  Mutex mu_;
  BatchingLimits limits_ ABSL_GUARDED_BY(mu_);  // Drain sets the delay to 0
  Credits credits_ ABSL_GUARDED_BY(mu_);
  Placer placer_ ABSL_GUARDED_BY(mu_);
  Scheduler scheduler_ ABSL_GUARDED_BY(mu_);
  Recovery recovery_ ABSL_GUARDED_BY(mu_);
  const uint64_t counters_max_;
  const bool runs_work_;
  // Of what is counted where it arrives.
  const uint64_t common_counters_max_;
  Backend* const cpu_;  // null: there is no CPU backend
  const uint64_t inline_bytes_max_, charge_max_;
  InlineGate gate_;

  uint64_t active_ ABSL_GUARDED_BY(mu_) = 0;      // threads that will touch this object again
  TimeNs wake_at_ ABSL_GUARDED_BY(mu_) = kNever;  // the time of the next Pump
  CondVar idle_;

  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  TimeNs sleeps_until_ ABSL_GUARDED_BY(mu_) = 0;  // while the thread sleeps; else 0
  CondVar wake_thread_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_
