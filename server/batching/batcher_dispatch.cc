// How batches leave, formed when they are due, and how they end.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>
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
    placer_.Refresh(outbox);
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
  const TimeNs tick =
      std::clamp(static_cast<TimeNs>(limits_.batch_us_max * 1000) / 4, kTickMin, kTickMax);
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

// --- Ending: taken back from backends, delivered to their jobs, reported

void Batcher::OnDone(Flight* flight, std::unique_ptr<Batch> batch) {
  Outbox outbox;
  std::vector<std::shared_ptr<const void>> released;  // dropped without the lock
  {
    MutexLock lock(mu_);
    flight->batch = std::move(batch);
    if (flight->quarantined) {  // nothing depends on it any more
      placer_.Return(flight);
      released.swap(flight->owners);
      placer_.Recycle(flight);
      idle_.NotifyAll();
      return;
    }
    ++active_;
    if (TakeBackLocked(flight, clock_.Now(), outbox)) outbox.delivered.push_back(flight);
  }
  Finish(outbox);
}

bool Batcher::TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox) {
  placer_.Return(flight);
  const absl::Status& status = flight->batch->status;
  const bool good = status.ok();
  if (good) {
    placer_.Learn(*flight, now);
    scheduler_.Landed(*flight, outbox);
  } else {
    const bool down = (placer_.Refresh(outbox) >> flight->backend & 1) == 0;
    const std::string_view reason = down                                ? kDeviceLost
                                    : absl::IsResourceExhausted(status) ? kOutOfMemory
                                                                        : kBatchFailed;
    scheduler_.Failed(*flight, reason, status, outbox);
    placer_.Recycle(flight);
  }
  PumpLocked(now, outbox);
  return good;
}

void Batcher::Finish(Outbox& outbox) {
  for (Flight* flight : outbox.submits) Submit(flight);
  ReportBackends(outbox);
  Deliver(outbox);
  MutexLock lock(mu_);
  for (Flight* flight : outbox.delivered) placer_.Recycle(flight);
  --active_;
  if (IdleLocked()) idle_.NotifyAll();
}

void Batcher::ReportBackends(const Outbox& outbox) {
  for (const Outbox::Down& down : outbox.downs) {
    if (down.reason == kWatchdog) {
      backends_[down.backend]->MarkDown("a batch took longer than --batch-max");
    }
    observer_.BackendDown(backends_[down.backend]->info().name, down.reason);
  }
  for (const Outbox::FellBack& fell : outbox.fell_back) {
    observer_.FellBack(backends_[fell.from]->info().name, backends_[fell.to]->info().name,
                       fell.reason);
  }
}

void Batcher::Deliver(Outbox& outbox) {
  for (; outbox.expired > 0; --outbox.expired) observer_.Expired();
  for (; outbox.cancelled > 0; --outbox.cancelled) observer_.Cancelled();
  const bool before = std::exchange(in_callback, true);
  for (Flight* flight : outbox.delivered) Deliver(*flight);
  for (const Outbox::Finished& finished : outbox.finished) {
    if (finished.status.ok()) {
      observer_.StageFinished(Stage::kQueue, finished.job->report.backend, finished.job->queue_ns);
    }
    finished.job->Done(finished.status);
  }
  in_callback = before;
}

void Batcher::Deliver(Flight& flight) {
  const BatchReport& report = flight.batch->report;
  observer_.BatchFinished(report, flight.bytes, flight.closed_by);
  for (const Piece& piece : flight.pieces) {
    if (!piece.whole) continue;  // added up under the lock
    Job* job = piece.job;
    flight.Give(piece);
    job->report = report;
    observer_.StageFinished(Stage::kQueue, report.backend, job->queue_ns);
    job->Done(absl::OkStatus());
  }
}

}  // namespace histogram::server
