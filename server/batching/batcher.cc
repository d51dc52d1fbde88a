// How a batcher begins and ends, and what it shows.
#include "server/batching/batcher.h"

#include <algorithm>
#include <chrono>
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

// The largest payload that is counted where it arrives: one that would not be cut for lanes.
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
      counters_max_(LaneCounters(std::ranges::max(backends_, {}, LaneCounters))),
      phase_limits_(MostPhases(backends_)),
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

}  // namespace histogram::server
