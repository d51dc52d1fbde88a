// The batcher's insides; included by its own source only.
//
// The pattern of every entry: under the lock decide what is to be done and note it in an Outbox;
// release the lock and do it (Finish): submit, report, call back. An entry counts itself in active_
// for as long as it will touch this object again, and gives that up under the lock as its last
// deed: whoever waits for idleness may destroy the batcher the moment the lock is free.
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
#include "server/batching/outbox.h"
#include "server/batching/placer.h"
#include "server/batching/recovery.h"
#include "server/batching/scheduler.h"

namespace histogram::server {

class Batcher::Impl : public std::enable_shared_from_this<Batcher::Impl> {
 public:
  Impl(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
       Observer& observer);

  bool counts_typed() const { return counts_typed_; }
  void StartThread();
  void StopThread();

  absl::StatusOr<Outcome> Enqueue(Job* job, WhenFull when_full) ABSL_LOCKS_EXCLUDED(mu_);
  // `now` was just read.
  TimeNs Pump(TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  TimeNs Pump() ABSL_LOCKS_EXCLUDED(mu_) { return Pump(clock_.Now()); }
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  bool WaitIdle(TimeNs deadline) ABSL_LOCKS_EXCLUDED(mu_);
  Snapshot TakeSnapshot() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // --- Under the lock
  // Forms all batches that can be formed now.
  void PumpLocked(TimeNs now, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes back a flight whose backend is done with it, and what its lane can do next. True: its
  // counts are good; it is to be delivered and then recycled.
  bool TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IdleLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return active_ == 0 && scheduler_.idle();
  }
  // This thread is about to leave for good.
  void EndActiveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- Without the lock
  // Does what is noted and then gives up this thread's share in active_.
  void Finish(Outbox& outbox) ABSL_LOCKS_EXCLUDED(mu_);
  void Submit(Flight* flight) ABSL_LOCKS_EXCLUDED(mu_);
  // The backend is done with the flight.
  void OnDone(Flight* flight, std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts the flight, which is one whole job, on this thread.
  Outcome CountHere(Flight* flight, TimeNs now) ABSL_LOCKS_EXCLUDED(mu_);
  // Reports backends that went down, and what fell back.
  void ReportBackends(Outbox& outbox);
  void Deliver(Outbox& outbox);
  void Deliver(Flight& flight);
  // Takes the pieces off condemned flights and sends them elsewhere.
  void Quarantine(const std::vector<Flight*>& condemned, TimeNs now, Outbox& outbox)
      ABSL_LOCKS_EXCLUDED(mu_);
  // `expected`: when it is to run first.
  void RunThread(TimeNs expected) ABSL_LOCKS_EXCLUDED(mu_);

  const std::vector<Backend*> backends_;
  Clock& clock_;
  Observer& observer_;
  const uint64_t batch_ns_max_;  // of the watchdog; 0: none

  Mutex mu_;
  BatchingLimits limits_ ABSL_GUARDED_BY(mu_);  // Drain ends the delay
  Credits credits_ ABSL_GUARDED_BY(mu_);
  Placer placer_ ABSL_GUARDED_BY(mu_);
  Scheduler scheduler_ ABSL_GUARDED_BY(mu_);
  Recovery recovery_ ABSL_GUARDED_BY(mu_);
  const bool counts_typed_;

  uint64_t active_ ABSL_GUARDED_BY(mu_) = 0;      // threads that will touch this object again
  TimeNs wake_at_ ABSL_GUARDED_BY(mu_) = kNever;  // when Pump is wanted
  CondVar idle_;

  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  TimeNs sleeps_until_ ABSL_GUARDED_BY(mu_) = 0;  // of the thread, while it sleeps; else 0
  CondVar wake_thread_;
  std::thread thread_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_IMPL_H_
