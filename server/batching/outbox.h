// Work for the batcher after it has released its lock. Decisions under the lock note it here.
#ifndef HISTOGRAM_SERVER_BATCHING_OUTBOX_H_
#define HISTOGRAM_SERVER_BATCHING_OUTBOX_H_

#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "server/batching/flight.h"
#include "server/batching/job.h"

namespace histogram::server {

// Why a backend's batches go to another one. A label of metrics.
inline constexpr std::string_view kWatchdog = "watchdog";
inline constexpr std::string_view kDeviceLost = "device_lost";
inline constexpr std::string_view kOutOfMemory = "out_of_memory";
inline constexpr std::string_view kBatchFailed = "error";

struct Outbox {
  struct Finished {
    Job* job = nullptr;
    absl::Status status;
  };
  struct FellBack {
    int from = -1, to = -1;
    std::string_view reason;
  };
  struct Down {
    int backend = -1;
    std::string_view reason;
  };

  absl::InlinedVector<Flight*, 4> submits;    // to their backends
  absl::InlinedVector<Flight*, 2> delivered;  // came back with counts; their whole jobs are done
  absl::InlinedVector<Finished, 2> finished;  // the other jobs that are done
  uint32_t expired = 0, cancelled = 0;        // jobs dropped, to be reported
  absl::InlinedVector<FellBack, 1> fell_back;
  absl::InlinedVector<Down, 1> downs;

  bool empty() const {
    return submits.empty() && delivered.empty() && finished.empty() && expired + cancelled == 0 &&
           fell_back.empty() && downs.empty();
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_OUTBOX_H_
