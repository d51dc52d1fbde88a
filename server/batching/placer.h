// The lanes of all backends, the batches that hold them, and which one the next batch goes to: by
// the queue, the state of the backends, and the kind that gets more done (preference.h).
//
// A lane is one credit. A flight takes it when it is formed and returns it when its batch comes
// back.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. Owns the
// flights. The backends and the limits outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_PLACER_H_
#define HISTOGRAM_SERVER_BATCHING_PLACER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/flight.h"
#include "server/batching/inline_gate.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"
#include "server/batching/preference.h"
#include "server/batching/snapshot.h"

namespace histogram::server {

// Decide's view of the queue: the payloads of one size class, which may share a batch.
struct QueueView {
  uint32_t payloads = 0;
  uint64_t bytes = 0;
  uint64_t next_bytes = 0;      // what is left of the first payload
  bool next_executing = false;  // a part of that payload is executing
};

// Decide's view of a backend.
struct BackendView {
  bool up = true;
  BackendKind kind = BackendKind::kGpu;
  uint32_t free = 0;  // lanes without a batch
  uint32_t lanes = 0;
  uint64_t lane_bytes = 0;     // most bytes of one batch
  uint32_t lane_payloads = 0;  // most payloads of one batch
};

struct Decision {
  int backend = -1;             // index into the backends; -1: wait
  uint32_t payloads_max = 0;    // close the batch at this many payloads ...
  uint64_t bytes_max = 0;       // ... or this many bytes (a first payload larger than this is cut)
  uint64_t fill_bytes_max = 0;  // add no payload that makes the batch larger than this
  uint32_t parts = 1;           // cut the first payload into this many parts, over free lanes
  ClosedBy closed_by = ClosedBy::kIdle;
  TimeNs wake_at = kNever;  // decide again at this time, if nothing else happens; Placer's
};

// Decides what to dispatch to which backend. A pure function, without clock, lock or I/O.
// `backends` are in order of preference.
// - It chooses the backend with the most free lanes of the first kind that has any; of equal ones
//   the first. With no free lane the queue waits.
// - With a free lane, a batch closes at once.
// - A payload of split_bytes_min or more is cut over all free lanes but one, so that small payloads
//   find a lane. A backend with one lane has none to spare. For the same reason the rest of a
//   payload that is executing in part does not take the last lane while nothing else is queued.
//   No part but the last is smaller than a quarter of split_bytes_min. On the CPU no part is larger
//   than a lane's share of what is left, so that lanes that become free take part.
// - A batch takes at most its lane's share of the queue, but 64 payloads and 256 KiB in any case:
//   the other lanes will soon be free too.
// - A payload larger than bytes_max is cut to that. Its rest stays first of its caller.
// Backends that are down or have no lanes are skipped. With none left the decision is to wait.
Decision Decide(const QueueView& queue, absl::Span<const BackendView> backends,
                const BatchingLimits& limits);

class Placer {
 public:
  // REQUIRES: at most kBackendsMax backends.
  Placer(const BatchingLimits& limits, const std::vector<Backend*>& backends);

  // --- The lanes

  int size() const { return static_cast<int>(backends_.size()); }
  const BackendInfo& info(int b) const { return *backends_[b].info; }

  bool up(int b) const { return !backends_[b].down && backends_[b].backend->up(); }
  bool usable(int b) const { return up(b) && info(b).lanes > 0; }
  // The backends that are usable now. Notes those that went down since the last call.
  BackendMask Refresh(Outbox& outbox);
  // The backend gets no more batches. Keeps the first reason.
  void MarkDown(int b, std::string_view reason, Outbox& outbox);

  // The batches of a backend; each holds one lane.
  absl::Span<Flight* const> flights(int b) const { return backends_[b].flights; }
  uint32_t busy(int b) const { return static_cast<uint32_t>(flights(b).size()); }
  uint32_t free(int b) const { return info(b).lanes - busy(b); }
  // Whether a usable backend outside `except` has a free lane.
  bool AnyFree(BackendMask except) const;

  // Takes a lane for a batch. REQUIRES: free(b) > 0.
  Flight* Take(int b, ClosedBy closed_by, TimeNs now);
  // Returns the lane. The flight keeps its pieces until Recycle.
  void Return(Flight* flight);
  // Puts the flight back into the pool. REQUIRES: its lane was returned.
  void Recycle(Flight* flight);

  // Those of all backends that are not down.
  uint32_t lanes() const;

  // --- Where the next batch goes

  // The kind of backend that a job which comes now goes to.
  BackendKind Prefer(const Job& job, TimeNs now);
  // What the CPU counts now, if it has a free lane.
  InlineGate::Classes CpuClasses() const;
  // Learns from the payloads that threads counted themselves. REQUIRES: learns().
  void Learn(const InlineGate::Collected& collected, TimeNs now);
  // Whether both kinds of backend are there, up or not.
  bool learns() const { return preference_.has_value(); }
  // The CPU's index; -1: there is no CPU backend.
  int cpu() const { return cpu_; }

  // What to do with `queue`, whose first job is `job`. Leaves out the backends in `except`.
  Decision Decide(TimeNs now, const QueueView& queue, const Job& job, BackendMask except);

  // The backends that cannot count this job: it has more counters than their lanes, or its phases
  // need more than they have.
  BackendMask CannotCount(const Job& job) const;
  // Whether a batch of that backend may hold both jobs.
  bool MayShareBatch(int backend, const Job& a, const Job& b) const;
  // Whether both kinds of backend are up.
  bool BothKindsUp() const;

  // Learns from a flight whose pieces were counted in time.
  void Learn(const Flight& flight, TimeNs now);

  std::vector<Placement> placements() const;

 private:
  struct Lanes {
    Backend* backend = nullptr;
    const BackendInfo* info = nullptr;
    bool down = false;  // as noted here; the backend itself may be down earlier
    std::vector<Flight*> flights;
    TimeNs taken_at = 0;  // when a lane was last taken
  };

  // Keeps in views_ only the kind that the job prefers. Sets `wake_at` to the time to decide again:
  // the other kind may serve then. REQUIRES: BothKindsUp().
  void KeepOneKind(TimeNs now, const Job& job, TimeNs& wake_at);

  const BatchingLimits& limits_;
  std::vector<Lanes> backends_;
  std::vector<std::unique_ptr<Flight>> pool_;
  std::vector<Flight*> idle_;
  int cpu_ = -1;
  std::optional<Preference> preference_;  // only with both kinds of backend
  std::vector<BackendView> views_;        // memory that Decide reuses
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PLACER_H_
