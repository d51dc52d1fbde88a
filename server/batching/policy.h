// When to dispatch what to which backend: a pure function of the time, the queue and the lanes.
// No clock, no lock, no I/O; Batcher applies what it says.
#ifndef HISTOGRAM_SERVER_BATCHING_POLICY_H_
#define HISTOGRAM_SERVER_BATCHING_POLICY_H_

#include <cstdint>

#include "absl/types/span.h"
#include "server/batching/clock.h"
#include "server/batching/limits.h"
#include "server/observer.h"

namespace histogram::server {

// What the policy sees of the queue.
struct QueueView {
  uint32_t payloads = 0;
  uint64_t bytes = 0;
  TimeNs oldest_enqueued_at = kNever;
  TimeNs tightest_deadline = kNever;
  uint64_t next_bytes = 0;  // the payload that fairness puts first
};

// What the policy sees of one backend, in order of preference.
struct LaneView {
  bool up = true;
  bool executes_inline = false;
  uint32_t free = 0;            // lanes without a batch
  uint32_t lanes = 0;
  uint64_t lane_bytes = 0;      // most bytes of one batch
  uint32_t lane_payloads = 0;   // most payloads of one batch
  TimeNs eta = 0;               // when the next lane is expected to be free (now, if one is)
  uint64_t batch_cost_ns = 0;   // predicted time of the batch that would be formed now
};

struct Decision {
  enum class Action : uint8_t { kWait, kDispatch };
  Action action = Action::kWait;
  int backend = -1;             // kDispatch: index into the lanes
  uint32_t payloads_max = 0;    // kDispatch: close the batch at this many payloads ...
  uint64_t bytes_max = 0;       // ... or this many bytes (a first payload larger than this is cut)
  uint32_t parts = 1;           // kDispatch: cut the first payload into this many parts, over free lanes
  ClosedBy closed_by = ClosedBy::kIdle;
  TimeNs wake_at = kNever;      // kWait: decide again at this time, if nothing else happens
};

Decision Decide(TimeNs now, const QueueView& queue, absl::Span<const LaneView> lanes,
                const BatchingLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_POLICY_H_
