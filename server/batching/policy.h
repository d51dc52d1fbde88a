// When to dispatch what to which backend: a pure function of the time, the queue and the backends.
// No clock, no lock, no I/O; the batcher does what it says.
#ifndef HISTOGRAM_SERVER_BATCHING_POLICY_H_
#define HISTOGRAM_SERVER_BATCHING_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/limits.h"

namespace histogram::server {

// What the policy sees of the queue: the payloads that may share a batch (of one size class).
struct QueueView {
  uint32_t payloads = 0;
  uint64_t bytes = 0;
  TimeNs oldest_enqueued_at = kNever;
  TimeNs tightest_deadline = kNever;
  uint64_t next_bytes = 0;      // the payload that fairness puts first: what is left of it
  bool next_executing = false;  // a part of that payload is executing already
};

// What the policy sees of one backend, in order of preference.
struct BackendView {
  bool up = true;
  BackendKind kind = BackendKind::kGpu;
  uint32_t free = 0;  // lanes without a batch
  uint32_t lanes = 0;
  uint64_t lane_bytes = 0;     // most bytes of one batch
  uint32_t lane_payloads = 0;  // most payloads of one batch
  TimeNs eta = 0;              // when the next lane is expected to be free (now, if one is)
  uint64_t batch_cost_ns = 0;  // predicted time of the batch that would be formed now
};

struct Decision {
  enum class Action : uint8_t { kWait, kDispatch };
  Action action = Action::kWait;
  int backend = -1;             // kDispatch: index into the backends
  uint32_t payloads_max = 0;    // kDispatch: close the batch at this many payloads ...
  uint64_t bytes_max = 0;       // ... or this many bytes (a first payload larger than this is cut)
  uint64_t fill_bytes_max = 0;  // kDispatch: add none to the first that would take it over this
  uint32_t parts = 1;    // kDispatch: cut the first payload into this many parts, over free lanes
  uint64_t cost_ns = 0;  // kDispatch: predicted for the batch
  ClosedBy closed_by = ClosedBy::kIdle;
  TimeNs wake_at = kNever;  // kWait: decide again at this time, if nothing else happens
};

// - It chooses the backend that is expected to finish first (eta + cost); of equal ones one with a
//   free lane, of those the first. If the chosen one has no free lane, the queue waits for it.
// - With a free lane, a batch closes when it is full (bytes, payloads), when now + cost + margin
//   reaches the tightest deadline, or when the oldest payload has waited for the delay; with no
//   delay, at once.
// - A payload of split_bytes_min or more is cut over all free lanes but one, so that small payloads
//   find a lane; a backend with a single lane has none to spare. For the same reason the rest of a
//   payload of which a part is executing does not take the last lane while nothing else is queued.
//   No part is smaller than a quarter of split_bytes_min. On the CPU no part is larger than a
//   lane's share of what is left, so that lanes which come free meanwhile take part.
// - With no delay a batch takes at most its lane's share of the queue (down to a few payloads): the
//   other lanes are soon free too.
// - A payload larger than bytes_max is cut to that; what is left of it stays first of its caller.
// Backends that are down, or without lanes, are skipped; with none left the answer is to wait.
Decision Decide(TimeNs now, const QueueView& queue, absl::Span<const BackendView> backends,
                const BatchingLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_POLICY_H_
