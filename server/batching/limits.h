// Limits of queue and batches. Each has a flag and a default in server/config/config.h.
#ifndef HISTOGRAM_SERVER_BATCHING_LIMITS_H_
#define HISTOGRAM_SERVER_BATCHING_LIMITS_H_

#include <cstdint>

namespace histogram::server {

struct BatchingLimits {
  uint64_t queue_bytes_max = uint64_t{256} << 20;  // payload + reply bytes, queued and executing
  uint32_t batch_payloads_max = 1024;
  uint64_t batch_bytes_max = uint64_t{16} << 20;
  uint64_t batch_delay_us_max = 0;  // how long a batch may wait to fill while a lane is free
  // The watchdog: a batch that executes longer marks its backend down. 0: none.
  uint64_t batch_us_max = 10000000;
  uint64_t inline_bytes_max = uint64_t{1} << 20;  // counted on the thread that received it (cpu)
  uint64_t split_bytes_min = uint64_t{2}
                             << 20;  // a payload at least this large is cut over free lanes
  uint64_t small_bytes_max = uint64_t{64} << 10;  // up to here a payload is of the small size class
  uint64_t deadline_margin_us = 200;  // a batch closes this long before its tightest deadline
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_LIMITS_H_
