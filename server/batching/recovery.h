// Batches that failed or hang: what they had goes to another backend.
//
// The watchdog condemns a batch that executes for too long. The batcher then asks its jobs for what
// keeps their payloads alive (without the lock), and Quarantine takes the pieces off the lane.
//
// Plain state with the time as an argument. Not thread-safe: guarded by the batcher's lock. The
// credits, the placer and the scheduler outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_RECOVERY_H_
#define HISTOGRAM_SERVER_BATCHING_RECOVERY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/base/clock.h"
#include "server/batching/credits.h"
#include "server/batching/flight.h"
#include "server/batching/outbox.h"
#include "server/batching/placer.h"
#include "server/batching/scheduler.h"

namespace histogram::server {

class Recovery {
 public:
  using Owners = std::vector<std::shared_ptr<const void>>;

  // `batch_ns_max`: a batch that executes longer hangs. 0: none does.
  Recovery(uint64_t batch_ns_max, Credits& credits, Placer& placer, Scheduler& scheduler);

  // --- Executing again

  // Nothing waits to be executed again.
  bool empty() const { return retries_.empty(); }
  // The backend failed these pieces of `flight`. They go to another one, as Pump finds a lane.
  // `reason` is static text, a metric's label.
  void Retry(const Flight& flight, absl::Span<const Piece> pieces, std::string_view reason,
             absl::string_view message, TimeNs now, Outbox& outbox);
  // Forms all batches of such pieces that can be formed now; ends pieces for which no backend is
  // left.
  void Pump(TimeNs now, Outbox& outbox);
  // When it wants Pump again, if nothing happens before.
  TimeNs wake_at() const { return wake_at_; }

  // --- The watchdog

  // Condemns batches that hang and marks their backends down.
  std::vector<Flight*> Condemn(TimeNs now, Outbox& outbox);
  // Takes the pieces off a condemned flight that has not returned, and retries them. `owners` are
  // what the pieces' jobs shared (Job::SharePayload), in the order of the pieces; a piece whose job
  // shared nothing waits for the lane. `batcher` lives until the lane returns.
  void Quarantine(Flight* flight, Owners owners, std::shared_ptr<void> batcher, TimeNs now,
                  Outbox& outbox);
  // When the next batch will have executed for too long.
  TimeNs WatchdogAt() const;
  // The process stood still for `ns`: nothing that executed then is to blame.
  void Forgive(TimeNs ns);

 private:
  // Pieces of one failed batch on their way to another backend.
  struct Pending {
    std::vector<Piece> pieces;  // last first
    uint64_t bytes = 0;
    BackendMask failed_on = 0;
    int from = -1;
    std::string_view reason;
    std::string message;  // of the failure
  };

  void Fail(Pending& pending, BackendMask up, Outbox& outbox);
  // Ends the dead among the next pieces; returns whether any are left.
  bool Trim(Pending& pending, TimeNs now, Outbox& outbox);
  void Form(Pending& pending, const Decision& decision, TimeNs now, Outbox& outbox);

  const uint64_t batch_ns_max_;
  Credits& credits_;
  Placer& placer_;
  Scheduler& scheduler_;
  std::vector<Pending> retries_;  // first come, first served
  TimeNs wake_at_ = kNever;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_RECOVERY_H_
