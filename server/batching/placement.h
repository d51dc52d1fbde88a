// Where payloads go: what a batch would cost on each backend, and the payload sizes from which on
// another backend is chosen. The choice itself is policy.h's.
//
// Functions without state; thread-safe.
#ifndef HISTOGRAM_SERVER_BATCHING_PLACEMENT_H_
#define HISTOGRAM_SERVER_BATCHING_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "server/batching/limits.h"
#include "server/batching/policy.h"

namespace histogram::server {

// "latency", "cpu"
std::string Name(Objective objective);

// Fills in the costs in `lane`, of the batch that `backend` would get of that queue.
void PredictCosts(const Backend& backend, const QueueView& queue, uint32_t bin_count,
                  const BatchingLimits& limits, LaneView& lane);

// Payloads of payload_bytes_min and more go to this backend, up to the next placement's.
struct Placement {
  uint64_t payload_bytes_min = 0;
  std::string backend;
};

// Of lone payloads while every lane is free: by the costs measured and the objective, as the
// batcher decides it. Ascending, the first from 0 on; empty with no backend up. Boundaries are
// exact to a few percent, as the costs are.
std::vector<Placement> PlaceLonePayloads(absl::Span<Backend* const> backends,
                                         const BatchingLimits& limits);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_PLACEMENT_H_
