// Collects payloads and hands them, batched, to the kind of backend that gets more done
// (preference.h), and of that kind to the backend that is expected to finish first (policy.h).
//
// The batcher holds one credit a lane. With a free lane and no delay configured a lone payload
// leaves at once, and a small one is counted on the very thread that brought it; batches form
// because lanes are busy. All methods are thread-safe.
//
// This class is the lock, the hand-over and the thread. What happens under the lock is in plain
// classes: which lanes are free (credits.h), which backend a batch goes to (placer.h, policy.h,
// preference.h), what is queued (scheduler.h, admission.h, fair_queue.h), what is executed again
// (recovery.h).
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
  // What to do with a job for which the queue has no room.
  enum class WhenFull {
    kRefuse,  // Enqueue fails with RESOURCE_EXHAUSTED (reason QUEUE_FULL, retry_after_ms set)
    kWait,    // the job waits its turn outside the queue, first come, first served
  };
  enum class Outcome {
    kQueued,   // Done comes, or has come
    kWaiting,  // the same, and until Done there is no room for more
    kCounted,  // counted where it arrived: counts and report are filled, Done is not called
  };

  struct BackendSnapshot {
    std::string name;
    bool up = true;
    uint32_t lanes = 0, lanes_busy = 0;
  };
  // The backend that payloads go to as of now, and why. It holds for payloads of up to
  // payload_bytes_max that are larger than the placement before allows.
  struct Placement {
    uint64_t payload_bytes_max = 0;
    std::string backend;
    std::string_view reason;  // "only": there is no other; "estimate"; "trial": see preference.h
    uint64_t switches = 0;    // from one backend to another so far
    bool typed = false;       // of samples other than bytes
  };
  // A consistent look at the gauges.
  struct Snapshot {
    uint64_t queue_payloads = 0, queue_bytes = 0;  // waiting for a lane
    uint64_t in_flight = 0;                        // payloads executing
    uint64_t charged_bytes = 0;                    // against queue_bytes_max: queued and executing
    uint64_t waiting = 0;                          // streams paused for room
    std::vector<BackendSnapshot> backends;
    // Ascending, one a size class, of bytes and then of typed samples; none with no backend up.
    std::vector<Placement> placements;
  };

  // `backends` (at most 64) in order of preference; they, the clock and the observer outlive the
  // batcher. `start_thread`: run a thread that honours delays and the watchdog; tests call Pump
  // instead.
  Batcher(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
          Observer& observer, bool start_thread = true);
  // Waits until everything that was accepted is done. A lane that hangs may outlast the batcher:
  // its batch, should it come back, is dropped without touching anything that the batcher was
  // given.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Takes the job. Done is called exactly once, maybe before this returns, unless the outcome is
  // kCounted: then the job is the caller's again.
  //
  // On an error nothing was taken, and Done is not called:
  // - RESOURCE_EXHAUSTED, reason QUEUE_FULL, with retry_after_ms: as above. Callers share the room
  //   (admission.h): a job that would fit has none where its caller holds too much, or where it
  //   would overtake another one of its caller or of a caller that holds nothing.
  // - RESOURCE_EXHAUSTED, reason PAYLOAD_TOO_LARGE: the job alone takes more than queue_bytes_max.
  //   It would never fit, and what waits behind it would wait for ever.
  // - UNAVAILABLE, reason DRAINING: after Drain.
  // Enqueue reports no error to the observer: whoever turns it into an answer does.
  //
  // From within Done no job is counted on the calling thread, even a small one.
  absl::StatusOr<Outcome> Enqueue(Job* job, WhenFull when_full);

  // Decides as of now. Returns when to call it again; kNever: only once something has happened.
  TimeNs Pump();

  // The most counters of typed samples that a backend has; 0: all count bytes only. A job must not
  // need more.
  uint64_t counters_max() const;
  // Whether a backend runs PayloadWork. If none does, a job must not have any.
  bool runs_work() const;

  // From now on Enqueue fails; what was accepted goes on.
  void Drain();
  // Blocks until nothing is queued, waiting or executing and every Done has returned, or until
  // `deadline`; true if all is done. A quarantined batch whose jobs went on elsewhere does not
  // count. Must not be called from within Done.
  bool WaitIdle(TimeNs deadline);

  Snapshot snapshot() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the batches of lanes that hang
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_BATCHER_H_
