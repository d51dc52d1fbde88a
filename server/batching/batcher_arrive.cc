// How a payload arrives: counted on the calling thread, queued, or refused.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "server/batching/batcher.h"

namespace histogram::server {

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
         job.charge_bytes <= std::min(job.bytes + kInlineAnswerBytesMax, charge_max_) &&
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
