#include "server/base/clock.h"

#include <ctime>

namespace histogram::server {
namespace {

class MonotonicClock final : public Clock {
 public:
  TimeNs Now() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return TimeNs{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
};

}  // namespace

Clock& Clock::Monotonic() {
  static MonotonicClock clock;
  return clock;
}

}  // namespace histogram::server
