// A clock that stands until it is told to go on. Thread-safe.
#ifndef HISTOGRAM_TESTS_BATCHING_FAKE_CLOCK_H_
#define HISTOGRAM_TESTS_BATCHING_FAKE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "server/base/clock.h"

namespace histogram::server {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(TimeNs now = 1'000'000'000) : now_(now) {}
  TimeNs Now() const override { return now_.load(); }
  void AdvanceNs(int64_t ns) { now_ += ns; }
  void AdvanceUs(int64_t us) { now_ += us * 1000; }

 private:
  std::atomic<TimeNs> now_;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_BATCHING_FAKE_CLOCK_H_
