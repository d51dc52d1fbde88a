// Limits of the queue and of batches. server/config/table.cc lists those that have a flag.
#ifndef HISTOGRAM_SERVER_BATCHING_LIMITS_H_
#define HISTOGRAM_SERVER_BATCHING_LIMITS_H_

#include <cstdint>

#include "server/base/thresholds.h"

namespace histogram::server {

struct BatchingLimits {
  uint64_t queue_bytes_max = uint64_t{256} << 20;  // charge_bytes of jobs queued and executing
  uint32_t batch_payloads_max = kBatchPayloadsMax;
  uint64_t batch_bytes_max = uint64_t{16} << 20;
  uint64_t batch_delay_us_max = 0;  // how long a batch may wait to fill while a lane is free
  // The watchdog marks a backend down if a batch executes longer.
  uint64_t batch_us_max = 10000000;
  uint64_t inline_bytes_max = kInlineBytesMax;  // counted on the thread that received it (cpu)
  uint64_t split_bytes_min = kSplitBytesMin;    // payloads of this size or more are cut over lanes
  uint64_t small_bytes_max = kSmallBytesMax;    // the largest payload of the small size class
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_LIMITS_H_
