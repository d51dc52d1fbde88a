// How batches leave: formed when they are due, and submitted to backends.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "server/batching/batcher.h"

namespace histogram::server {

TimeNs Batcher::Pump() { return PumpAt(clock_.Now()); }

TimeNs Batcher::PumpAt(TimeNs now) {
  Outbox outbox;
  {
    MutexLock lock(mu_);
    ++active_;
    scheduler_.Quarantine(now, outbox);
    credits_.Refresh(outbox);
    PumpLocked(now, outbox);
  }
  Finish(outbox);
  MutexLock lock(mu_);
  return std::min(scheduler_.wake_at(), scheduler_.WatchdogAt());
}

void Batcher::PumpLocked(TimeNs now, Outbox& outbox) {
  scheduler_.Pump(now, outbox);
  if (scheduler_.wake_at() < sleeps_until_) wake_thread_.NotifyOne();
  OpenGateLocked();
}

void Batcher::OpenGateLocked() { gate_.Open(scheduler_.InlineClasses()); }

void Batcher::Submit(Flight* flight) {
  flight->Prepare();
  flight->started_at.store(clock_.Now(), std::memory_order_release);
  // Two pointers: they fit into the callable, which allocates nothing then.
  backends_[flight->backend]->Submit(
      std::move(flight->batch),
      [this, flight](std::unique_ptr<Batch> batch) { OnDone(flight, std::move(batch)); });
}

void Batcher::RunThread(TimeNs expected) {
  // Batches start without waking this thread, so it looks for slow ones from time to time.
  constexpr TimeNs kTickMin = 1'000'000;
  constexpr TimeNs kTickMax = 1'000'000'000;
  const TimeNs tick = std::clamp(batch_ns_max_ / 4, kTickMin, kTickMax);
  while (true) {
    TimeNs now = 0;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      // The process may have been stopped or suspended. One reading of the clock judges all work
      // that waits, and the next reading is compared with it, so that no pause goes unnoticed.
      now = clock_.Now();
      const TimeNs late = now - expected;
      if (late > tick) scheduler_.Forgive(late);
    }
    PumpAt(now);
    MutexLock lock(mu_);
    expected = now;
    const TimeNs until = std::min({scheduler_.wake_at(), scheduler_.WatchdogAt(), now + tick});
    const TimeNs sleep = until - clock_.Now();
    if (stopping_ || sleep <= 0) continue;
    sleeps_until_ = until;
    wake_thread_.WaitFor(mu_, std::chrono::nanoseconds(sleep));
    sleeps_until_ = 0;
    expected = until;
  }
}

}  // namespace histogram::server
