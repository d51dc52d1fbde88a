// How a batcher begins and ends, what it shows, and how payloads arrive.
#include "server/batching/batcher.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace histogram::server {
namespace {

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
      limits_(limits),
      placer_(limits_, backends_),
      scheduler_(limits_, placer_),
      cpu_(placer_.cpu() < 0 ? nullptr : backends_[placer_.cpu()]),
      inline_bytes_max_(InlineBytesMax(limits, cpu_)),
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
  for (int b = 0; b < placer_.size(); ++b) {
    while (placer_.busy(b) > 0) idle_.Wait(mu_);
  }
}

void Batcher::Drain() {
  const TimeNs now = clock_.Now();
  Outbox outbox;
  {
    MutexLock lock(mu_);
    ++active_;
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
  for (int b = 0; b < placer_.size(); ++b) {
    snapshot.backends.push_back({.name = placer_.info(b).name,
                                 .up = placer_.up(b),
                                 .lanes = placer_.info(b).lanes,
                                 .lanes_busy = placer_.busy(b)});
  }
  snapshot.placements = placer_.placements();
  return snapshot;
}

// --- Arriving: counted on the calling thread, queued, or refused

bool Batcher::Count(Job* job) {
  const TimeNs now = clock_.Now();
  if (!FitsHere(*job, now)) return false;
  const size_t size_class = Preference::ClassOf(job->bytes, !job->plan.counts_values());
  return gate_.Enter(size_class) && CountHere(job, size_class, now);
}

absl::StatusOr<Batcher::Outcome> Batcher::Enqueue(Job* job, WhenFull when_full) {
  if (Count(job)) return Outcome::kCounted;
  Arrival arrival{.job = job, .when_full = when_full};
  Enqueue(absl::MakeSpan(&arrival, 1));
  return std::move(arrival.outcome);
}

bool Batcher::FitsHere(const Job& job, TimeNs now) const {
  return cpu_ != nullptr && job.bytes <= inline_bytes_max_ && !job.for_lane && !in_callback &&
         job.phases == nullptr &&  // its bytes do not tell how long it takes
         job.charge_bytes <= std::min(job.bytes + kInlineAnswerBytesMax, limits_.queue_bytes_max) &&
         !Scheduler::Unwanted(job, now);
}

bool Batcher::CountHere(Job* job, size_t size_class, TimeNs now) {
  if (gate_.CollectIsDue(now)) {
    MutexLock lock(mu_);
    placer_.Learn(gate_.Collect(now), now);
    OpenGateLocked();
  }
  job->enqueued_at = now;
  job->queue_ns = 0;
  thread_local std::unique_ptr<Batch> spare;  // keeps its memory
  std::unique_ptr<Batch> batch = spare != nullptr ? std::move(spare) : std::make_unique<Batch>();
  job->counters.resize(job->plan.counter_count());
  batch->items.push_back({.fragments = job->fragments,
                          .bytes = job->bytes,
                          .plan = job->plan,
                          .counts = absl::MakeSpan(job->counters)});
  batch->bytes = job->bytes;
  cpu_->Execute(*batch);
  batch->items.clear();
  const bool counted = batch->status.ok();
  job->report = std::move(batch->report);
  spare = std::move(batch);
  if (!counted) {
    gate_.LeaveUncounted();
    return false;
  }
  Observer& observer = observer_;  // outlives this object
  gate_.Leave(size_class, job->bytes);
  observer.BatchFinished(job->report, job->bytes, ClosedBy::kInline);
  observer.StageFinished(Stage::kQueue, job->report.backend, job->queue_ns);
  return true;
}

void Batcher::Enqueue(absl::Span<Arrival> arrivals) {
  using Room = Scheduler::Room;
  const TimeNs now = clock_.Now();
  absl::InlinedVector<std::pair<Arrival*, Scheduler::Refusal>, 1> refused;
  Outbox outbox;
  {
    MutexLock lock(mu_);
    for (Arrival& arrival : arrivals) {
      const Room room = scheduler_.RoomFor(*arrival.job);
      if (room == Room::kYes) {
        scheduler_.Enter(arrival.job, now);
      } else if (room == Room::kNotNow && arrival.when_full == WhenFull::kWait) {
        scheduler_.Wait(arrival.job, now);
        arrival.outcome = Outcome::kWaiting;
      } else {
        refused.emplace_back(&arrival, scheduler_.Refuse(*arrival.job, room));
      }
    }
    PumpLocked(now, outbox);
    if (!outbox.empty()) ++active_;
  }
  for (const auto& [arrival, refusal] : refused) arrival->outcome = refusal.ToStatus();
  if (!outbox.empty()) Finish(outbox);
}

}  // namespace histogram::server
