// Decides which backend the next batch goes to, and when. It asks the policy (policy.h), with the
// state of the backends, the kind that gets more done (preference.h), and predicted times.
//
// Plain state; time is an argument. Not thread-safe: the batcher's lock guards it. The backends,
// the limits and the credits outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_PLACER_H_
#define HISTOGRAM_SERVER_BATCHING_PLACER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/batching/credits.h"
#include "server/batching/flight.h"
#include "server/batching/inline_gate.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"
#include "server/batching/policy.h"
#include "server/batching/preference.h"
#include "server/batching/snapshot.h"

namespace histogram::server {

class Placer {
 public:
  Placer(const BatchingLimits& limits, const Credits& credits);

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
  // Keeps in views_ only the kind that the job prefers. Sets `wake_at` to the time to decide again:
  // the other kind may serve then. REQUIRES: BothKindsUp().
  void KeepOneKind(TimeNs now, const Job& job, TimeNs& wake_at);

  const BatchingLimits& limits_;
  const Credits& credits_;
  int cpu_ = -1;
  std::optional<Preference> preference_;  // only with both kinds of backend
  std::vector<BackendView> views_;        // memory that Decide reuses
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PLACER_H_
