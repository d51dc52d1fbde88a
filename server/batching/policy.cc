#include "server/batching/policy.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace histogram::server {
namespace {

constexpr uint64_t kPartsPerSplitMin = 4;
// A lane's share of the queue is not made smaller than this: a batch should be worth its hand-over.
// Not measured apart.
constexpr uint64_t kFillBytesMin = 256 << 10;
constexpr uint32_t kFillPayloadsMin = 64;

// Lanes of this backend that the queue may take now.
uint32_t FreeFor(const QueueView& queue, const BackendView& backend) {
  const bool leave_one = queue.next_executing && queue.payloads == 1 && backend.lanes > 1;
  return backend.free - ((leave_one && backend.free > 0) ? 1 : 0);
}

// The backend with a lane for the queue that takes the least time; -1: there is none.
int EarliestToFinish(const QueueView& queue, absl::Span<const BackendView> backends) {
  int best = -1;
  for (size_t i = 0; i < backends.size(); ++i) {
    if (!backends[i].up || FreeFor(queue, backends[i]) == 0) continue;
    if (best < 0 || backends[i].batch_cost_ns < backends[best].batch_cost_ns) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

uint64_t PartBytesMin(const BatchingLimits& limits) {
  return std::max<uint64_t>(1, limits.split_bytes_min / kPartsPerSplitMin);
}

// Over how many lanes the first payload is cut.
uint32_t Parts(uint64_t bytes, const BackendView& backend, uint32_t free,
               const BatchingLimits& limits) {
  if (bytes < limits.split_bytes_min) return 1;
  // Of the lanes that are free one is left to others (`free` may be without it already).
  const uint32_t over = backend.lanes > 1 ? std::min(free, backend.free - 1) : free;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / PartBytesMin(limits), 1, std::max<uint32_t>(1, over)));
}

// The most that one lane takes of a payload that is cut: its share of what is left, as if all lanes
// but one were free, since those that are busy soon are (guided self-scheduling: Polychronopoulos
// and Kuck, 1987). A GPU's lanes share one link, which a cut makes no faster.
uint64_t PieceBytesMax(const QueueView& queue, const BackendView& backend,
                       const BatchingLimits& limits) {
  const bool cut = queue.next_executing || queue.next_bytes >= limits.split_bytes_min;
  if (!cut || backend.kind == BackendKind::kGpu || backend.lanes < 2)
    return std::numeric_limits<uint64_t>::max();
  return std::max(PartBytesMin(limits), queue.next_bytes / (backend.lanes - 1));
}

}  // namespace

Decision Decide(const QueueView& queue, absl::Span<const BackendView> backends,
                const BatchingLimits& limits) {
  if (queue.payloads == 0) return {};
  const int best = EarliestToFinish(queue, backends);
  if (best < 0) return {};
  const BackendView& backend = backends[best];

  Decision decision;
  const uint64_t bytes_max =
      std::max<uint64_t>(1, std::min(limits.batch_bytes_max, backend.lane_bytes));
  const uint32_t payloads_max =
      std::max<uint32_t>(1, std::min(limits.batch_payloads_max, backend.lane_payloads));
  if (queue.bytes >= bytes_max) {
    decision.closed_by = ClosedBy::kBytes;
  } else if (queue.payloads >= payloads_max) {
    decision.closed_by = ClosedBy::kPayloads;
  }
  decision.backend = best;
  decision.fill_bytes_max =
      std::min(bytes_max, std::max(kFillBytesMin, queue.bytes / backend.lanes));
  decision.payloads_max =
      std::min(payloads_max, std::max(kFillPayloadsMin, queue.payloads / backend.lanes));
  decision.parts = Parts(queue.next_bytes, backend, FreeFor(queue, backend), limits);
  decision.bytes_max = std::min(bytes_max, PieceBytesMax(queue, backend, limits));
  return decision;
}

}  // namespace histogram::server
