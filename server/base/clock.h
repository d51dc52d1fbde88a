// The process's monotonic clock. Whatever a test must be able to control reads it through this.
#ifndef HISTOGRAM_SERVER_BASE_CLOCK_H_
#define HISTOGRAM_SERVER_BASE_CLOCK_H_

#include <cstdint>

namespace histogram::server {

// Nanoseconds of a monotonic clock. kNever is later than any time.
using TimeNs = int64_t;
inline constexpr TimeNs kNever = INT64_MAX;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs Now() const;  // of CLOCK_MONOTONIC; tests override it

  // The one that the server uses.
  static Clock& Monotonic();
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_CLOCK_H_
