#include "server/base/clock.h"

#include <ctime>

namespace histogram::server {

TimeNs Clock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return TimeNs{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Clock& Clock::Monotonic() {
  static Clock clock;
  return clock;
}

}  // namespace histogram::server
