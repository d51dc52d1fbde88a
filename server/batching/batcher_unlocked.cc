// What the batcher does outside of its lock, but for two short looks: it counts small payloads on
// the calling thread, submits batches, reports and calls back.
#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "server/batching/batcher.h"

namespace histogram::server {
namespace {

// Whether this thread is in a callback of a batcher. It may be a lane's thread, so it must not be
// given a payload to count; and Done calling Enqueue calling Done must not grow the stack.
thread_local bool in_callback = false;

class CallbackScope {
 public:
  CallbackScope() : before_(std::exchange(in_callback, true)) {}
  ~CallbackScope() { in_callback = before_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const bool before_;
};

}  // namespace

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

void Batcher::Finish(Outbox& outbox) {
  for (Flight* flight : outbox.submits) Submit(flight);
  ReportBackends(outbox);
  Deliver(outbox);
  MutexLock lock(mu_);
  for (Flight* flight : outbox.delivered) credits_.Recycle(flight);
  --active_;
  if (IdleLocked()) idle_.NotifyAll();
}

void Batcher::Submit(Flight* flight) {
  flight->Prepare();
  assert(backends_[flight->backend]->info().kind == BackendKind::kCpu ||
         std::ranges::all_of(flight->batch->items,
                             [](const BatchItem& item) { return item.plan.has_tables(); }));
  flight->started_at.store(clock_.Now(), std::memory_order_release);
  // Two pointers: they fit into the callable, which allocates nothing then.
  backends_[flight->backend]->Submit(
      std::move(flight->batch),
      [this, flight](std::unique_ptr<Batch> batch) { OnDone(flight, std::move(batch)); });
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
  CallbackScope scope;
  for (Flight* flight : outbox.delivered) Deliver(*flight);
  for (const Outbox::Finished& finished : outbox.finished) {
    if (finished.status.ok()) {
      observer_.StageFinished(Stage::kQueue, finished.job->report.backend, finished.job->queue_ns);
    }
    finished.job->Done(finished.status);
  }
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
