// Collects payloads into batches and hands these to backends: to the kind that gets more done
// (preference.h), and of that kind to the backend that is expected to finish first (policy.h).
//
// While nothing waits, the thread that brings a small payload for the CPU counts it, without a lock
// (inline_gate.h). The batcher holds one credit for each lane. With a free lane and no configured
// delay, any other lone payload leaves at once. Batches form while lanes are busy. All methods are
// thread-safe.
//
// This class has the lock, the hand-over and the thread. Plain classes decide under the lock: which
// lanes are free (credits.h), which backend a batch goes to (placer.h, policy.h, preference.h),
// what is queued (scheduler.h, admission.h, fair_queue.h), and what is executed again (recovery.h).
#ifndef HISTOGRAM_SERVER_BATCHING_BATCHER_H_
#define HISTOGRAM_SERVER_BATCHING_BATCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"

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

  struct BackendSnapshot {
    std::string name;
    bool up = true;
    uint32_t lanes = 0, lanes_busy = 0;
  };
  // The backend that payloads go to now, and why. It holds for payloads of up to payload_bytes_max
  // that are larger than payload_bytes_max of the previous placement.
  struct Placement {
    uint64_t payload_bytes_max = 0;
    std::string backend;
    std::string_view reason;  // "only": there is no other; "estimate"; "trial": see preference.h
    uint64_t switches = 0;    // from one backend to another so far
    bool typed = false;       // for typed samples, not bytes
  };
  // A consistent snapshot of the gauges.
  struct Snapshot {
    uint64_t queue_payloads = 0, queue_bytes = 0;  // waiting for a lane
    uint64_t in_flight = 0;                        // payloads executing
    uint64_t charged_bytes = 0;                    // against queue_bytes_max: queued and executing
    uint64_t waiting = 0;                          // jobs that wait for room
    std::vector<BackendSnapshot> backends;
    // One for each size class, ascending: those of bytes, then of typed samples. Empty if no
    // backend is up.
    std::vector<Placement> placements;
  };

  // `backends`: at most 64, in order of preference. They, the clock and the observer outlive the
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

  // Forms the batches that are due now. Returns the time of the next call; kNever: only after
  // another event.
  TimeNs Pump();

  // The most counters of typed samples of any backend; 0: all count bytes only. A job must not need
  // more.
  uint64_t counters_max() const;
  // Whether a backend runs PayloadWork. If not, a job must not have any.
  bool runs_work() const;

  // From now on Enqueue fails. Accepted jobs go on.
  void Drain();
  // Waits until no job is queued, waiting or executing and every Done has returned, or until
  // `deadline`. Returns whether all is done. Ignores quarantined batches whose jobs went on
  // elsewhere. Must not be called within Done.
  bool WaitIdle(TimeNs deadline);

  Snapshot snapshot() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_H_
