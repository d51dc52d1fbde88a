// How a payload arrives: counted on the calling thread, queued, or refused.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "server/batching/batcher.h"

namespace histogram::server {

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

bool Batcher::FitsHere(const Job& job, TimeNs now) const {
  return cpu_ != nullptr && job.bytes <= inline_bytes_max_ && !job.for_lane && !in_callback &&
         job.phases == nullptr &&  // its bytes do not tell how long it takes
         job.charge_bytes <= std::min(job.bytes + kInlineAnswerBytesMax, charge_max_) &&
         !Scheduler::Unwanted(job, now);
}

absl::StatusOr<Batcher::Outcome> Batcher::CountHere(Job* job, size_t size_class, WhenFull when_full,
                                                    TimeNs now) {
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
    auto outcome = Queue(job, when_full, now);
    gate_.LeaveUncounted();
    return outcome;
  }
  Observer& observer = observer_;  // outlives this object
  gate_.Leave(size_class, job->bytes);
  observer.BatchFinished(job->report, job->bytes, ClosedBy::kInline);
  observer.StageFinished(Stage::kQueue, job->report.backend, job->queue_ns);
  return Outcome::kCounted;
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

}  // namespace histogram::server
