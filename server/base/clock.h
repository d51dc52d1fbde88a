// The process's monotonic clock. Code whose time a test must control reads the clock through this.
#ifndef HISTOGRAM_SERVER_BASE_CLOCK_H_
#define HISTOGRAM_SERVER_BASE_CLOCK_H_

#include <cstdint>
#include <ctime>

namespace histogram::server {

// Nanoseconds of a monotonic clock. kNever is later than any time.
using TimeNs = int64_t;
inline constexpr TimeNs kNever = INT64_MAX;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Of CLOCK_MONOTONIC; tests override it.
  virtual TimeNs Now() const {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return TimeNs{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  // The one that the server uses.
  static Clock& Monotonic() {
    static Clock clock;
    return clock;
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_CLOCK_H_
