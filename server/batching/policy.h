// Decides what to dispatch to which backend. A pure function of the queue and the backends, without
// clock, lock or I/O. The batcher does what it decides.
#ifndef HISTOGRAM_SERVER_BATCHING_POLICY_H_
#define HISTOGRAM_SERVER_BATCHING_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/base/clock.h"
#include "server/base/observer.h"
#include "server/batching/limits.h"

namespace histogram::server {

// The policy's view of the queue: the payloads of one size class, which may share a batch.
struct QueueView {
  uint32_t payloads = 0;
  uint64_t bytes = 0;
  uint64_t next_bytes = 0;      // what is left of the first payload
  bool next_executing = false;  // a part of that payload is executing
};

// The policy's view of a backend.
struct BackendView {
  bool up = true;
  BackendKind kind = BackendKind::kGpu;
  uint32_t free = 0;  // lanes without a batch
  uint32_t lanes = 0;
  uint64_t lane_bytes = 0;     // most bytes of one batch
  uint32_t lane_payloads = 0;  // most payloads of one batch
  uint64_t batch_cost_ns = 0;  // predicted time of the batch that would be formed now
};

struct Decision {
  int backend = -1;             // index into the backends; -1: wait
  uint32_t payloads_max = 0;    // close the batch at this many payloads ...
  uint64_t bytes_max = 0;       // ... or this many bytes (a first payload larger than this is cut)
  uint64_t fill_bytes_max = 0;  // add no payload that makes the batch larger than this
  uint32_t parts = 1;           // cut the first payload into this many parts, over free lanes
  ClosedBy closed_by = ClosedBy::kIdle;
  TimeNs wake_at = kNever;  // decide again at this time, if nothing else happens; the placer's
};

// `backends` are in order of preference.
// - Of the backends with a free lane it chooses the one that is expected to finish first, of equal
//   ones the first. With no free lane the queue waits.
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

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_POLICY_H_
