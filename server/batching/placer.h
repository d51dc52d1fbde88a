// Which backend the next batch goes to, and when: what the policy decides (policy.h) from the
// backends as they are now, from the kind that gets more done (preference.h), and from predictions.
//
// Plain state with the time as an argument. Not thread-safe: guarded by the batcher's lock. The
// backends, the limits and the credits outlive it.
#ifndef HISTOGRAM_SERVER_BATCHING_PLACER_H_
#define HISTOGRAM_SERVER_BATCHING_PLACER_H_

#include <bit>
#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/batching/batcher.h"
#include "server/batching/credits.h"
#include "server/batching/flight.h"
#include "server/batching/job.h"
#include "server/batching/limits.h"
#include "server/batching/policy.h"
#include "server/batching/preference.h"

namespace histogram::server {

class Placer {
 public:
  Placer(const BatchingLimits& limits, const Credits& credits);

  // The kind of backend that is to count a job which comes now.
  BackendKind Prefer(const Job& job, TimeNs now);
  // The CPU, where it is to count a job that comes now and has a lane for it; else -1.
  int Here(const Job& job, TimeNs now);

  // What to do with `queue`, of which `job` is the first. Backends in `except` are not asked.
  Decision Decide(TimeNs now, const QueueView& queue, const Job& job, BackendMask except);

  // Backends that cannot count this job's samples.
  BackendMask Unfit(const Job& job) const {
    return job.plan.has_value() || job.work != nullptr ? bytes_only_ : 0;
  }
  // Whether any backend counts samples other than bytes.
  bool counts_typed() const { return std::popcount(bytes_only_) < credits_.size(); }
  // Whether there is a choice between CPU and GPU now.
  bool BothKindsUp() const;

  // The flight's pieces have been counted in time.
  void Learn(const Flight& flight, TimeNs now);

  std::vector<Batcher::Placement> placements() const;

 private:
  // Leaves in views_ the kind that the job prefers; returns how many backends are left. Both are
  // up. `wake_at` is when to decide again, as the other kind may serve then.
  size_t KeepOneKind(TimeNs now, const Job& job, TimeNs& wake_at);

  const BatchingLimits& limits_;
  const Credits& credits_;
  const BackendMask bytes_only_;
  int cpu_ = -1;                          // the CPU's index, where it is there
  std::optional<Preference> preference_;  // only where there are both kinds of backend
  std::vector<BackendView> views_;        // of Decide, which reuses the memory
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PLACER_H_
