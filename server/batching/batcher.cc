// Entries, callbacks and hand-over to the backends. What is decided under the lock is in
// dispatch.cc.
#include "server/batching/batcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/batching/batcher_impl.h"

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

absl::Status Draining() {
  return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                   {.reason = "DRAINING", .field = "", .limit = 0, .retry_after_ms = {}});
}

absl::Status TooLarge(uint64_t charge, uint64_t limit) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("payload and reply take ", charge, " bytes; the limit of the queue is ", limit,
                   " bytes (queue_bytes_max)"),
      {.reason = "PAYLOAD_TOO_LARGE", .field = "payload", .limit = limit, .retry_after_ms = {}});
}

absl::Status QueueFull(uint64_t charge, uint64_t charged, uint64_t held, uint64_t limit,
                       uint32_t retry_after_ms) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the queue is full: ", charged, " of ", limit,
                   " bytes (queue_bytes_max) are taken, ", held,
                   " of them by this caller, and this request needs ", charge, "; try again in ",
                   retry_after_ms, " ms"),
      {.reason = "QUEUE_FULL", .field = "", .limit = limit, .retry_after_ms = retry_after_ms});
}

}  // namespace

// --- Enqueue

Batcher::Impl::Room Batcher::Impl::RoomLocked(const Job& job) const {
  if (draining_) return Room::kDraining;
  if (job.charge_bytes > limits_.queue_bytes_max) return Room::kTooLarge;
  return admission_.HasRoom(job) ? Room::kYes : Room::kNotNow;
}

uint32_t Batcher::Impl::RetryAfterMsLocked() const {
  constexpr double kAssumedBytesPerNs = 1;
  constexpr double kMaxMs = 1000;
  double bytes_per_ns = 0;
  for (const Executor& executor : executors_) {
    if (executor.down) continue;
    bytes_per_ns +=
        executor.lanes *
        (executor.recent_ns > 0 ? executor.recent_bytes / executor.recent_ns : kAssumedBytesPerNs);
  }
  // What is queued may also be held back for a batch to fill.
  const double ns = static_cast<double>(admission_.charged_bytes()) / std::max(bytes_per_ns, 1e-6) +
                    static_cast<double>(limits_.batch_delay_us_max) * 1e3;
  return static_cast<uint32_t>(std::clamp(ns / 1e6, 1.0, kMaxMs));
}

absl::StatusOr<Batcher::Outcome> Batcher::Impl::Enqueue(Job* job, WhenFull when_full) {
  const TimeNs now = clock_.Now();
  Outcome outcome = Outcome::kQueued;
  Room room = Room::kYes;
  uint64_t charged = 0, held = 0, limit = 0;
  uint32_t retry_after_ms = 0;
  const bool may_count = !in_callback && !job->for_lane;  // this thread
  Flight* inlined = nullptr;
  Work work;
  {
    MutexLock lock(mu_);
    room = RoomLocked(*job);
    if (room == Room::kYes || (room == Room::kNotNow && when_full == WhenFull::kWait)) {
      ++accepted_;
      ++active_;
      job->enqueued_at = now;
      job->queue_ns = 0;
      job->notes_ = {};
      if (room == Room::kYes) {
        inlined = may_count ? TryInlineLocked(job, now) : nullptr;
        if (inlined != nullptr) {
          admission_.ChargeBriefly(*job);
        } else {
          admission_.Charge(job);
          queue_.Push(job);
          PumpLocked(now, work);
        }
      } else {
        admission_.Wait(job);
        ++waiting_count_;
        outcome = Outcome::kWaiting;
        AdmitLocked(now, work);  // those before it may have gone
      }
    } else {
      charged = admission_.charged_bytes();
      held = admission_.HeldBy(job->caller);
      limit = limits_.queue_bytes_max;
      retry_after_ms = RetryAfterMsLocked();
    }
  }
  if (room == Room::kDraining) return Draining();
  if (room == Room::kTooLarge) return TooLarge(job->charge_bytes, limit);
  if (room == Room::kNotNow && outcome != Outcome::kWaiting) {
    return QueueFull(job->charge_bytes, charged, held, limit, retry_after_ms);
  }
  if (inlined != nullptr) return CountLone(inlined, job, now);
  // A job that is not counted here as a whole may be in part.
  RunWork(work, may_count ? job : nullptr);
  return outcome;
}

TimeNs Batcher::Impl::ExecuteHere(Flight* flight, TimeNs started_at) {
  flight->Prepare();
  flight->started_at.store(started_at, std::memory_order_release);
  backends_[flight->backend]->Execute(*flight->batch);
  return clock_.Now();
}

Batcher::Outcome Batcher::Impl::CountLone(Flight* flight, Job* job, TimeNs started_at) {
  Observer& observer = observer_;  // outlives this object
  Work work;
  const TimeNs now = ExecuteHere(flight, started_at);
  bool counted = false, all_done = false;
  {
    MutexLock lock(mu_);
    // Else the watchdog has taken the job away, or it is to be executed elsewhere.
    counted = flight->state == Flight::State::kExecuting && flight->batch->status.ok();
    if (counted) {
      flight->Give(flight->pieces.front());
      std::swap(job->report, flight->batch->report);
    }
    ReturnedLocked(flight, now, work);
    if (counted) {
      work.delivered.pop_back();  // this flight
      RecycleLocked(flight);
      all_done = work.empty();
      if (all_done) EndActiveLocked();
    }
  }
  if (counted) {
    observer.BatchFinished(job->report, job->bytes, ClosedBy::kInline);
    observer.StageFinished(Stage::kQueue, job->report.backend, job->queue_ns);
  }
  if (!all_done) RunWork(work);
  return counted ? Outcome::kCounted : Outcome::kQueued;
}

// --- What is done without the lock

void Batcher::Impl::Submit(Flight* flight) {
  flight->Prepare();
  flight->started_at.store(clock_.Now(), std::memory_order_release);
  // Two pointers: they fit into the callable, which allocates nothing then.
  backends_[flight->backend]->Submit(
      std::move(flight->batch),
      [this, flight](std::unique_ptr<Batch> batch) { OnDone(flight, std::move(batch)); });
}

void Batcher::Impl::OnDone(Flight* flight, std::unique_ptr<Batch> batch) {
  Work work;  // outlives the lock, and with it what keeps this object alive
  {
    MutexLock lock(mu_);
    flight->batch = std::move(batch);
    if (flight->state == Flight::State::kCondemned) {
      flight->returned = true;  // the watchdog is at it and will see to the rest
      return;
    }
    if (flight->state == Flight::State::kQuarantined && flight->pieces.empty()) {
      // Nothing depends on it any more; the batcher itself may be gone, and with it the clock.
      LandLocked(flight);
      work.released.swap(flight->owners);
      work.released.push_back(std::move(flight->batcher));
      RecycleLocked(flight);
      return;
    }
    ++active_;
    ReturnedLocked(flight, clock_.Now(), work);
  }
  RunWork(work);
}

Flight* Batcher::Impl::TakeOwn(Work& work, const Job* own) {
  const auto is_own = [&](const Flight* flight) {
    return flight->pieces.size() == 1 && flight->pieces.front().job == own &&
           !flight->pieces.front().whole && backends_[flight->backend]->info().executes_inline;
  };
  const auto found = std::find_if(work.submits.begin(), work.submits.end(), is_own);
  if (found == work.submits.end()) return nullptr;
  Flight* const flight = *found;
  work.submits.erase(found);
  return flight;
}

void Batcher::Impl::RunWork(Work& work, Job* own) {
  while (true) {
    Flight* const mine = own != nullptr ? TakeOwn(work, own) : nullptr;
    for (Flight* flight : work.submits) Submit(flight);
    work.submits.clear();
    Report(work);
    if (mine != nullptr) {
      own = nullptr;  // no more than one: the thread has more to do
      const TimeNs now = ExecuteHere(mine, clock_.Now());
      MutexLock lock(mu_);
      ReturnedLocked(mine, now, work);
      continue;
    }
    if (work.admitted.empty()) break;
    {
      CallbackScope scope;
      for (Job* job : work.admitted) job->Admitted();
    }
    const TimeNs now = clock_.Now();
    MutexLock lock(mu_);
    for (Job* job : work.admitted) queue_.Push(job);
    waiting_count_ -= work.admitted.size();
    work.admitted.clear();
    admitting_ = false;
    AdmitLocked(now, work);
    PumpLocked(now, work);
  }
  Deliver(work);
  MutexLock lock(mu_);
  for (Flight* flight : work.delivered) RecycleLocked(flight);
  EndActiveLocked();
}

void Batcher::Impl::Report(Work& work) {
  for (const Down& down : work.downs) {
    if (down.reason == kWatchdog) {
      backends_[down.backend]->MarkDown("a batch took longer than batch_us_max");
    }
    observer_.BackendDown(backends_[down.backend]->info().name, down.reason);
  }
  work.downs.clear();
  for (const FellBack& fell : work.fell_back) {
    observer_.FellBack(backends_[fell.from]->info().name, backends_[fell.to]->info().name,
                       fell.reason);
  }
  work.fell_back.clear();
}

void Batcher::Impl::Deliver(Work& work) {
  for (; work.expired > 0; --work.expired) observer_.Expired();
  for (; work.cancelled > 0; --work.cancelled) observer_.Cancelled();
  if (work.delivered.empty() && work.finished.empty()) return;
  CallbackScope scope;
  for (Flight* flight : work.delivered) DeliverFlight(*flight);
  for (const Finished& finished : work.finished) {
    if (finished.status.ok()) {
      observer_.StageFinished(Stage::kQueue, finished.job->report.backend, finished.job->queue_ns);
    }
    finished.job->Done(finished.status);
  }
}

void Batcher::Impl::DeliverFlight(Flight& flight) {
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

// --- The rest of the contract

TimeNs Batcher::Impl::Pump() { return PumpAt(clock_.Now()); }

TimeNs Batcher::Impl::PumpAt(TimeNs now) {
  Work work;
  std::vector<Flight*> condemned;
  {
    MutexLock lock(mu_);
    ++active_;
    condemned = CondemnLocked(now, work);
    RefreshLocked(work);
    if (condemned.empty()) PumpLocked(now, work);
  }
  if (!condemned.empty()) Quarantine(condemned, now, work);
  RunWork(work);
  MutexLock lock(mu_);
  return std::min(wake_at_, WatchdogAtLocked());
}

void Batcher::Impl::Drain() {
  const TimeNs now = clock_.Now();
  Work work;
  {
    MutexLock lock(mu_);
    ++active_;
    draining_ = true;
    limits_.batch_delay_us_max = 0;  // nothing more will come to fill a batch
    PumpLocked(now, work);
  }
  RunWork(work);
}

void Batcher::Impl::EndActiveLocked() {
  --active_;
  if (IdleLocked()) idle_.NotifyAll();
}

bool Batcher::Impl::IdleLocked() const { return accepted_ == 0 && active_ == 0; }

bool Batcher::Impl::WaitIdle(TimeNs deadline) {
  MutexLock lock(mu_);
  while (!IdleLocked()) {
    if (deadline == kNever) {
      idle_.Wait(mu_);
      continue;
    }
    const TimeNs now = clock_.Now();
    if (now >= deadline) return false;
    idle_.WaitFor(mu_, std::chrono::nanoseconds(deadline - now));
  }
  return true;
}

Batcher::Snapshot Batcher::Impl::TakeSnapshot() {
  Snapshot snapshot;
  {
    MutexLock lock(mu_);
    for (const auto c : {FairQueue::kSmall, FairQueue::kLarge}) {
      snapshot.queue_payloads += queue_.payloads(c);
      snapshot.queue_bytes += queue_.bytes(c);
    }
    snapshot.in_flight = in_flight_;
    snapshot.charged_bytes = admission_.charged_bytes();
    snapshot.waiting = waiting_count_;
    snapshot.backends.reserve(executors_.size());
    for (const Executor& executor : executors_) {
      snapshot.backends.push_back({.name = executor.backend->info().name,
                                   .up = !executor.down && executor.backend->up(),
                                   .lanes = executor.lanes,
                                   .lanes_busy = static_cast<uint32_t>(executor.flights.size())});
    }
    snapshot.placements = PlacementsLocked();
  }
  return snapshot;
}

Batcher::Batcher(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
                 Observer& observer, bool start_thread)
    : impl_(std::make_shared<Impl>(std::move(backends), limits, clock, observer)) {
  if (start_thread) impl_->StartThread();
}

Batcher::~Batcher() {
  impl_->Drain();
  impl_->WaitIdle(kNever);
  impl_->StopThread();
}

absl::StatusOr<Batcher::Outcome> Batcher::Enqueue(Job* job, WhenFull when_full) {
  return impl_->Enqueue(job, when_full);
}
TimeNs Batcher::Pump() { return impl_->Pump(); }
bool Batcher::counts_typed() const { return impl_->counts_typed(); }
void Batcher::Drain() { impl_->Drain(); }
bool Batcher::WaitIdle(TimeNs deadline) { return impl_->WaitIdle(deadline); }
Batcher::Snapshot Batcher::snapshot() const { return impl_->TakeSnapshot(); }

}  // namespace histogram::server
