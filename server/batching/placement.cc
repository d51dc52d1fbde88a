#include "server/batching/placement.h"

#include <algorithm>

namespace histogram::server {
namespace {

// The backend for a lone payload of that size, with every lane free; -1 where none is up.
int Place(uint64_t bytes, absl::Span<Backend* const> backends, const BatchingLimits& limits) {
  const QueueView queue{
      .payloads = 1, .bytes = bytes, .oldest_enqueued_at = 0, .next_bytes = bytes};
  std::vector<LaneView> lanes;
  for (const Backend* backend : backends) {
    const BackendInfo& info = backend->info();
    LaneView& lane = lanes.emplace_back();
    lane.up = backend->up();
    lane.executes_inline = info.executes_inline;
    lane.free = lane.lanes = info.lanes;
    lane.lane_bytes = info.lane_bytes;
    lane.lane_payloads = info.lane_payloads;
    PredictCosts(*backend, queue, kByteValues, limits, lane);
  }
  BatchingLimits at_once = limits;
  at_once.batch_delay_us_max = 0;
  return Decide(/*now=*/0, queue, lanes, at_once).backend;
}

}  // namespace

std::string Name(Objective objective) { return objective == Objective::kCpu ? "cpu" : "latency"; }

void PredictCosts(const Backend& backend, const QueueView& queue, uint32_t bin_count,
                  const BatchingLimits& limits, LaneView& lane) {
  const uint64_t bytes = std::min({queue.bytes, limits.batch_bytes_max, lane.lane_bytes});
  const uint32_t payloads =
      std::min({queue.payloads, limits.batch_payloads_max, lane.lane_payloads});
  const Workload workload{.bin_count = bin_count,
                          .payload_bytes = std::min(queue.next_bytes, bytes),
                          .payload_count = std::max<uint32_t>(1, payloads),
                          .batch_bytes = bytes};
  constexpr uint64_t kMost = kNever / 4;
  lane.batch_cost_ns = std::min(backend.EstimateNs(workload), kMost);
  if (limits.objective == Objective::kCpu) {
    lane.batch_cpu_ns = std::min(backend.EstimateCpuNs(workload), kMost);
  }
}

std::vector<Placement> PlaceLonePayloads(absl::Span<Backend* const> backends,
                                         const BatchingLimits& limits) {
  std::vector<Placement> placements;
  int before = Place(0, backends, limits);
  if (before < 0) return placements;
  placements.push_back({.payload_bytes_min = 0, .backend = backends[before]->info().name});
  // What is larger than a batch is cut.
  for (uint64_t low = 0; low < limits.batch_bytes_max;) {
    const uint64_t high = std::clamp<uint64_t>(low * 2, 1, limits.batch_bytes_max);
    const int after = Place(high, backends, limits);
    if (after != before) {
      uint64_t still = low, changed = high;
      while (changed - still > 1 + still / 64) {
        const uint64_t middle = still + (changed - still) / 2;
        (Place(middle, backends, limits) == before ? still : changed) = middle;
      }
      placements.push_back({.payload_bytes_min = changed, .backend = backends[after]->info().name});
      before = after;
    }
    low = high;
  }
  return placements;
}

}  // namespace histogram::server
