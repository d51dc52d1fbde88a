// Sends the pieces of batches that failed or hang to another backend.
//
// The watchdog takes the pieces of a batch that executes for too long off its lane.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. The credits, the
// placer and the scheduler outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_RECOVERY_H_
#define HISTOGRAM_SERVER_BATCHING_RECOVERY_H_

#include <deque>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/batching/credits.h"
#include "server/batching/flight.h"
#include "server/batching/outbox.h"
#include "server/batching/placer.h"
#include "server/batching/scheduler.h"

namespace histogram::server {

class Recovery {
 public:
  // `batch_ns_max`: a batch that executes longer is taken to hang.
  Recovery(TimeNs batch_ns_max, Credits& credits, Placer& placer, Scheduler& scheduler);

  // --- Executing again

  // Whether no piece waits to be executed again.
  bool empty() const { return retries_.empty(); }
  // The backend failed the pieces of `flight`. They go to another backend when Pump finds a lane.
  // `reason` is static text: a label of metrics.
  void Retry(const Flight& flight, std::string_view reason, absl::string_view message, TimeNs now,
             Outbox& outbox);
  // Sends such pieces on, first come, first served, each in a batch of its own: it is rare. The
  // first one without a lane holds up the rest, so that many that wait cost nothing. Ends pieces
  // without a backend left.
  void Pump(TimeNs now, Outbox& outbox);

  // --- The watchdog

  // Takes the pieces off the flights that hang, retries them, and marks the backends down.
  void Quarantine(TimeNs now, Outbox& outbox);
  // The time at which the next batch will have executed for too long.
  TimeNs WatchdogAt() const;
  // The process was stopped for `ns`: batches that executed then get this time back.
  void Forgive(TimeNs ns);

 private:
  // A piece of a failed batch on its way to another backend.
  struct Pending {
    Piece piece;
    BackendMask failed_on = 0;
    int from = -1;
    std::string_view reason;
    std::string message;  // of the failure
  };

  // Sends the piece on, or ends it. False: it waits for a lane.
  bool Settle(Pending& pending, BackendMask up, TimeNs now, Outbox& outbox);
  void Fail(const Pending& pending, BackendMask up, Outbox& outbox);
  // Forms a batch of the piece, or of what a lane holds of it. Returns whether nothing is left.
  bool Form(Pending& pending, const Decision& decision, TimeNs now, Outbox& outbox);

  const TimeNs batch_ns_max_;
  Credits& credits_;
  Placer& placer_;
  Scheduler& scheduler_;
  std::deque<Pending> retries_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_RECOVERY_H_
