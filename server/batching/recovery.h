// Sends the pieces of batches that failed or hang to another backend.
//
// The watchdog condemns a batch that executes for too long. The batcher then asks its jobs, without
// the lock, for the owners of their payloads. Quarantine takes the pieces off the lane.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. The credits, the
// placer and the scheduler outlive it.
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

  // `batch_ns_max`: a batch that executes longer is taken to hang. 0: no batch is.
  Recovery(uint64_t batch_ns_max, Credits& credits, Placer& placer, Scheduler& scheduler);

  // --- Executing again

  // Whether no piece waits to be executed again.
  bool empty() const { return retries_.empty(); }
  // The backend failed these pieces of `flight`. They go to another backend when Pump finds a lane.
  // `reason` is static text: a label of metrics.
  void Retry(const Flight& flight, absl::Span<const Piece> pieces, std::string_view reason,
             absl::string_view message, TimeNs now, Outbox& outbox);
  // Forms all batches of such pieces that can be formed now. Ends pieces without a backend left.
  void Pump(TimeNs now, Outbox& outbox);
  // The time of the next Pump, if nothing happens before.
  TimeNs wake_at() const { return wake_at_; }

  // --- The watchdog

  // Condemns batches that hang and marks their backends down.
  std::vector<Flight*> Condemn(TimeNs now, Outbox& outbox);
  // Takes the pieces off a condemned flight that has not returned, and retries them. `owners`: for
  // each piece what its job's SharePayload returned. A piece with a null owner waits for the lane.
  // `batcher` is kept alive until the lane returns.
  void Quarantine(Flight* flight, Owners owners, std::shared_ptr<void> batcher, TimeNs now,
                  Outbox& outbox);
  // The time at which the next batch will have executed for too long.
  TimeNs WatchdogAt() const;
  // The process was stopped for `ns`: batches that executed then get this time back.
  void Forgive(TimeNs ns);

 private:
  // Pieces of one failed batch on their way to another backend.
  struct Pending {
    std::vector<Piece> pieces;  // in reverse order
    uint64_t bytes = 0;
    BackendMask failed_on = 0;
    int from = -1;
    std::string_view reason;
    std::string message;  // of the failure
  };

  void Fail(Pending& pending, BackendMask up, Outbox& outbox);
  // Ends dead pieces at the front; returns whether any pieces are left.
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
