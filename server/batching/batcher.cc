// What the batcher decides, under its lock; batcher_unlocked.cc does it.
#include "server/batching/batcher.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace histogram::server {
namespace {

uint64_t LaneCounters(const Backend* backend) { return backend->info().lane_counters; }

// Backends of one kind have the same, and the CPU has the most.
PhaseLimits MostPhases(const std::vector<Backend*>& backends) {
  PhaseLimits most;
  for (const Backend* backend : backends) {
    if (backend->info().phases.Cover(most)) most = backend->info().phases;
  }
  return most;
}

// The largest payload that no lane's share would be cut from.
uint64_t InlineBytesMax(const BatchingLimits& limits, const Backend* cpu) {
  if (cpu == nullptr) return 0;
  return std::min({limits.inline_bytes_max, limits.batch_bytes_max, limits.split_bytes_min - 1,
                   cpu->info().lane_bytes});
}

}  // namespace

Batcher::Batcher(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
                 Observer& observer, bool start_thread)
    : backends_(std::move(backends)),
      clock_(clock),
      observer_(observer),
      batch_ns_max_(static_cast<TimeNs>(limits.batch_us_max * 1000)),
      limits_(limits),
      credits_(backends_),
      placer_(limits_, credits_),
      scheduler_(limits_, credits_, placer_),
      recovery_(batch_ns_max_, credits_, placer_, scheduler_),
      counters_max_(LaneCounters(std::ranges::max(backends_, {}, LaneCounters))),
      phase_limits_(MostPhases(backends_)),
      common_counters_max_(LaneCounters(std::ranges::min(backends_, {}, LaneCounters))),
      cpu_(placer_.cpu() < 0 ? nullptr : backends_[placer_.cpu()]),
      inline_bytes_max_(InlineBytesMax(limits, cpu_)),
      charge_max_(limits.queue_bytes_max),
      gate_(placer_.learns()) {
  {
    MutexLock lock(mu_);
    OpenGateLocked();
  }
  if (start_thread) thread_ = std::thread([this, now = clock_.Now()] { RunThread(now); });
}

Batcher::~Batcher() {
  Drain();
  WaitIdle(kNever);
  {
    MutexLock lock(mu_);
    stopping_ = true;
    wake_thread_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mu_);
  for (int b = 0; b < credits_.size(); ++b) {
    while (credits_.busy(b) > 0) idle_.Wait(mu_);
  }
}

// --- Entries

absl::StatusOr<Batcher::Outcome> Batcher::Enqueue(Job* job, WhenFull when_full) {
  const TimeNs now = clock_.Now();
  if (FitsHere(*job, now)) {
    const bool typed = !job->plan.counts_values();
    const bool only_cpu =
        typed && (!job->plan.has_tables() || job->plan.counter_count() > common_counters_max_);
    const size_t size_class =
        only_cpu ? InlineGate::kOnlyCpu : Preference::ClassOf(job->bytes, typed);
    if (gate_.Enter(size_class)) return CountHere(job, size_class, when_full, now);
  }
  return Queue(job, when_full, now);
}

absl::StatusOr<Batcher::Outcome> Batcher::Queue(Job* job, WhenFull when_full, TimeNs now) {
  using Room = Scheduler::Room;
  Outcome outcome = Outcome::kQueued;
  std::optional<Scheduler::Refusal> refusal;
  Outbox outbox;
  job->SetCaller();
  {
    MutexLock lock(mu_);
    const Room room = scheduler_.RoomFor(*job);
    if (room == Room::kYes) {
      scheduler_.Enter(job, now);
    } else if (room == Room::kNotNow && when_full == WhenFull::kWait) {
      scheduler_.Wait(job, now);
      outcome = Outcome::kWaiting;
    } else {
      refusal = scheduler_.Refuse(*job, room);
    }
    if (!refusal.has_value()) {
      ++active_;
      PumpLocked(now, outbox);
    }
  }
  if (refusal.has_value()) return refusal->ToStatus();
  Finish(outbox);
  return outcome;
}

void Batcher::OnDone(Flight* flight, std::unique_ptr<Batch> batch) {
  Outbox outbox;
  std::vector<std::shared_ptr<const void>> released;  // dropped without the lock
  {
    MutexLock lock(mu_);
    flight->batch = std::move(batch);
    if (flight->quarantined) {  // nothing depends on it any more
      credits_.Return(flight);
      released.swap(flight->owners);
      credits_.Recycle(flight);
      idle_.NotifyAll();
      return;
    }
    ++active_;
    if (TakeBackLocked(flight, clock_.Now(), outbox)) outbox.delivered.push_back(flight);
  }
  Finish(outbox);
}

TimeNs Batcher::Pump() { return PumpAt(clock_.Now()); }

TimeNs Batcher::PumpAt(TimeNs now) {
  Outbox outbox;
  {
    MutexLock lock(mu_);
    ++active_;
    recovery_.Quarantine(now, outbox);
    credits_.Refresh(outbox);
    PumpLocked(now, outbox);
  }
  Finish(outbox);
  MutexLock lock(mu_);
  return std::min(wake_at_, recovery_.WatchdogAt());
}

void Batcher::Drain() {
  const TimeNs now = clock_.Now();
  Outbox outbox;
  {
    MutexLock lock(mu_);
    ++active_;
    limits_.batch_delay_us_max = 0;  // nothing more will come to fill a batch
    scheduler_.Drain();
    PumpLocked(now, outbox);
  }
  Finish(outbox);
}

bool Batcher::WaitIdle(TimeNs deadline) {
  // A thread inside the gate wakes nobody as it leaves.
  constexpr TimeNs kLookAgainNs = 1'000'000;
  MutexLock lock(mu_);
  while (!IdleLocked() || gate_.inside() > 0) {
    const TimeNs left = deadline == kNever ? kNever : deadline - clock_.Now();
    if (left <= 0) return false;
    idle_.WaitFor(mu_, std::chrono::nanoseconds(std::min(left, kLookAgainNs)));
  }
  return true;
}

Batcher::Snapshot Batcher::snapshot() const {
  Snapshot snapshot;
  MutexLock lock(mu_);
  scheduler_.Report(snapshot);
  snapshot.in_flight += gate_.inside();
  snapshot.backends.reserve(backends_.size());
  for (int b = 0; b < credits_.size(); ++b) {
    snapshot.backends.push_back({.name = credits_.info(b).name,
                                 .up = credits_.up(b),
                                 .lanes = credits_.info(b).lanes,
                                 .lanes_busy = credits_.busy(b)});
  }
  snapshot.placements = placer_.placements();
  return snapshot;
}

// --- Under the lock

void Batcher::PumpLocked(TimeNs now, Outbox& outbox) {
  recovery_.Pump(now, outbox);
  scheduler_.Pump(now, outbox);
  wake_at_ = std::min(recovery_.wake_at(), scheduler_.wake_at());
  if (wake_at_ < sleeps_until_) wake_thread_.NotifyOne();
  OpenGateLocked();
}

void Batcher::OpenGateLocked() { gate_.Open(recovery_.empty() ? scheduler_.InlineClasses() : 0); }

bool Batcher::TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox) {
  credits_.Return(flight);
  const absl::Status& status = flight->batch->status;
  const bool good = status.ok();
  if (good) {
    credits_.Learn(*flight, now);
    placer_.Learn(*flight, now);
    scheduler_.Landed(*flight, outbox);
  } else {
    const bool down = (credits_.Refresh(outbox) >> flight->backend & 1) == 0;
    const std::string_view reason = down                                ? kDeviceLost
                                    : absl::IsResourceExhausted(status) ? kOutOfMemory
                                                                        : kBatchFailed;
    recovery_.Retry(*flight, reason, status.message(), now, outbox);
    credits_.Recycle(flight);
  }
  PumpLocked(now, outbox);
  return good;
}

// --- The thread

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
      if (late > tick) recovery_.Forgive(late);
    }
    PumpAt(now);
    MutexLock lock(mu_);
    expected = now;
    const TimeNs until = std::min({wake_at_, recovery_.WatchdogAt(), now + tick});
    const TimeNs sleep = until - clock_.Now();
    if (stopping_ || sleep <= 0) continue;
    sleeps_until_ = until;
    wake_thread_.WaitFor(mu_, std::chrono::nanoseconds(sleep));
    sleeps_until_ = 0;
    expected = until;
  }
}

}  // namespace histogram::server
