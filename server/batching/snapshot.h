// The batcher's state, for metrics and Describe.
#ifndef HISTOGRAM_SERVER_BATCHING_SNAPSHOT_H_
#define HISTOGRAM_SERVER_BATCHING_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace histogram::server {

struct BackendSnapshot {
  std::string name;
  bool up = true;
  uint32_t lanes = 0, lanes_busy = 0;
};

// The backend that payloads go to now, and why. It holds for payloads of up to payload_bytes_max
// that are larger than payload_bytes_max of the previous placement.
struct Placement {
  uint64_t payload_bytes_max = 0;
  std::string backend;
  std::string_view reason;  // "only": there is no other; "estimate"; "trial": see preference.h
  uint64_t switches = 0;    // from one backend to another so far
  bool typed = false;       // for typed samples, not bytes
};

// A consistent snapshot of the gauges.
struct BatcherSnapshot {
  uint64_t queue_payloads = 0, queue_bytes = 0;  // waiting for a lane
  uint64_t in_flight = 0;                        // payloads executing
  uint64_t charged_bytes = 0;                    // against queue_bytes_max: queued and executing
  uint64_t waiting = 0;                          // jobs that wait for room
  std::vector<BackendSnapshot> backends;
  // One for each size class, ascending: those of bytes, then of typed samples. Empty if no
  // backend is up.
  std::vector<Placement> placements;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_SNAPSHOT_H_
