#include "server/batching/batcher.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

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

// The largest payload that no lane's share would be cut from.
uint64_t InlineBytesMax(const BatchingLimits& limits, const Backend* cpu) {
  if (cpu == nullptr) return 0;
  return std::min({limits.inline_bytes_max, limits.batch_bytes_max,
                   std::max<uint64_t>(1, limits.split_bytes_min) - 1, cpu->info().lane_bytes});
}

}  // namespace

Batcher::Impl::Impl(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
                    Observer& observer)
    : backends_(std::move(backends)),
      clock_(clock),
      observer_(observer),
      batch_ns_max_(std::min<uint64_t>(limits.batch_us_max, kNever / 2000) * 1000),
      limits_(limits),
      credits_(backends_),
      placer_(limits_, credits_),
      scheduler_(limits_, credits_, placer_),
      recovery_(batch_ns_max_, credits_, placer_, scheduler_),
      counters_max_(placer_.counters_max()),
      runs_work_(placer_.runs_work()),
      common_counters_max_(placer_.common_counters_max()),
      cpu_(placer_.cpu() < 0 ? nullptr : backends_[placer_.cpu()]),
      inline_bytes_max_(InlineBytesMax(limits, cpu_)),
      charge_max_(limits.queue_bytes_max),
      gate_(placer_.learns()) {
  MutexLock lock(mu_);
  OpenGateLocked();
}

// --- Entries

absl::StatusOr<Batcher::Outcome> Batcher::Impl::Enqueue(Job* job, WhenFull when_full) {
  const TimeNs now = clock_.Now();
  if (FitsHere(*job, now)) {
    const bool typed = job->plan.has_value();
    const bool only_cpu = typed && CounterCount(job->plan) > common_counters_max_;
    const size_t size_class =
        only_cpu ? InlineGate::kOnlyCpu : Preference::ClassOf(job->bytes, typed);
    if (gate_.Enter(size_class)) return CountHere(job, size_class, when_full, now);
  }
  return Queue(job, when_full, now);
}

bool Batcher::Impl::FitsHere(const Job& job, TimeNs now) const {
  return cpu_ != nullptr && job.bytes <= inline_bytes_max_ && !job.for_lane && !in_callback &&
         job.work == nullptr &&  // its bytes do not tell how long it takes
         job.charge_bytes <= std::min(job.bytes + kInlineAnswerBytesMax, charge_max_) &&
         !Scheduler::Unwanted(job, now);
}

absl::StatusOr<Batcher::Outcome> Batcher::Impl::CountHere(Job* job, size_t size_class,
                                                          WhenFull when_full, TimeNs now) {
  if (gate_.CollectIsDue(now)) {
    MutexLock lock(mu_);
    placer_.Learn(gate_.Collect(now), now);
    OpenGateLocked();
  }
  job->enqueued_at = now;
  job->queue_ns = 0;
  thread_local std::unique_ptr<Batch> spare;  // keeps its memory
  std::unique_ptr<Batch> batch = spare != nullptr ? std::move(spare) : std::make_unique<Batch>();
  if (job->plan.has_value()) job->slots.resize(CounterCount(job->plan));
  batch->items.push_back(
      {.fragments = job->fragments,
       .bytes = job->bytes,
       .plan = job->plan,
       .counts = job->plan.has_value() ? absl::MakeSpan(job->slots) : absl::MakeSpan(job->counts)});
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

absl::StatusOr<Batcher::Outcome> Batcher::Impl::Queue(Job* job, WhenFull when_full, TimeNs now) {
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

void Batcher::Impl::OnDone(Flight* flight, std::unique_ptr<Batch> batch) {
  Outbox outbox;  // outlives the lock, and with it what keeps this object alive
  {
    MutexLock lock(mu_);
    flight->batch = std::move(batch);
    if (flight->state == Flight::State::kQuarantined && flight->pieces.empty()) {
      // Nothing depends on it any more; the batcher itself may be gone, and with it the clock.
      credits_.Return(flight);
      outbox.released.swap(flight->owners);
      outbox.released.push_back(std::move(flight->batcher));
      credits_.Recycle(flight);
      OpenGateLocked();
      return;
    }
    ++active_;
    if (TakeBackLocked(flight, clock_.Now(), outbox)) outbox.delivered.push_back(flight);
  }
  Finish(outbox);
}

TimeNs Batcher::Impl::Pump(TimeNs now) {
  Outbox outbox;
  std::vector<Flight*> condemned;
  {
    MutexLock lock(mu_);
    ++active_;
    condemned = recovery_.Condemn(now, outbox);
    credits_.Refresh(outbox);
    if (condemned.empty()) PumpLocked(now, outbox);
  }
  if (!condemned.empty()) Quarantine(condemned, now, outbox);
  Finish(outbox);
  MutexLock lock(mu_);
  return std::min(wake_at_, recovery_.WatchdogAt());
}

void Batcher::Impl::Drain() {
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

bool Batcher::Impl::WaitIdle(TimeNs deadline) {
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

Batcher::Snapshot Batcher::Impl::TakeSnapshot() {
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

void Batcher::Impl::PumpLocked(TimeNs now, Outbox& outbox) {
  recovery_.Pump(now, outbox);
  scheduler_.Pump(now, outbox);
  wake_at_ = std::min(recovery_.wake_at(), scheduler_.wake_at());
  if (wake_at_ < sleeps_until_) wake_thread_.NotifyOne();
  OpenGateLocked();
}

void Batcher::Impl::OpenGateLocked() { gate_.Open(recovery_.empty() ? scheduler_.Here() : 0); }

bool Batcher::Impl::TakeBackLocked(Flight* flight, TimeNs now, Outbox& outbox) {
  if (flight->state == Flight::State::kCondemned) {
    flight->returned = true;  // the watchdog is at it and will see to the rest
    return false;
  }
  const bool late = flight->state == Flight::State::kQuarantined;
  credits_.Return(flight);
  flight->state = Flight::State::kDelivering;
  outbox.released.insert(outbox.released.end(), flight->owners.begin(), flight->owners.end());
  flight->owners.clear();
  if (flight->batcher != nullptr) outbox.released.push_back(std::move(flight->batcher));

  const absl::Status& status = flight->batch->status;
  const bool good = status.ok() && !flight->pieces.empty();
  if (good) {
    if (!late) {
      credits_.Learn(*flight, now);
      placer_.Learn(*flight, now);
    }
    scheduler_.Landed(*flight, outbox);
  } else {
    const bool down = (credits_.Refresh(outbox) >> flight->backend & 1) == 0;
    const std::string_view reason = late                                ? kWatchdog
                                    : down                              ? kDeviceLost
                                    : absl::IsResourceExhausted(status) ? kOutOfMemory
                                                                        : kError;
    recovery_.Retry(*flight, flight->pieces, reason, status.message(), now, outbox);
    credits_.Recycle(flight);
  }
  PumpLocked(now, outbox);
  return good;
}

void Batcher::Impl::EndActiveLocked() {
  --active_;
  if (IdleLocked()) idle_.NotifyAll();
}

// --- Without the lock

void Batcher::Impl::Finish(Outbox& outbox) {
  for (Flight* flight : outbox.submits) Submit(flight);
  ReportBackends(outbox);
  Deliver(outbox);
  MutexLock lock(mu_);
  for (Flight* flight : outbox.delivered) credits_.Recycle(flight);
  EndActiveLocked();
}

void Batcher::Impl::Submit(Flight* flight) {
  flight->Prepare();
  flight->started_at.store(clock_.Now(), std::memory_order_release);
  // Two pointers: they fit into the callable, which allocates nothing then.
  backends_[flight->backend]->Submit(
      std::move(flight->batch),
      [this, flight](std::unique_ptr<Batch> batch) { OnDone(flight, std::move(batch)); });
}

void Batcher::Impl::ReportBackends(Outbox& outbox) {
  for (const Outbox::Down& down : outbox.downs) {
    if (down.reason == kWatchdog) {
      backends_[down.backend]->MarkDown("a batch took longer than --batch-max");
    }
    observer_.BackendDown(backends_[down.backend]->info().name, down.reason);
  }
  outbox.downs.clear();
  for (const Outbox::FellBack& fell : outbox.fell_back) {
    observer_.FellBack(backends_[fell.from]->info().name, backends_[fell.to]->info().name,
                       fell.reason);
  }
  outbox.fell_back.clear();
}

void Batcher::Impl::Deliver(Outbox& outbox) {
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

void Batcher::Impl::Deliver(Flight& flight) {
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

void Batcher::Impl::Quarantine(const std::vector<Flight*>& condemned, TimeNs now, Outbox& outbox) {
  // The lane must not be handed anything more, and the jobs are asked, without the lock.
  ReportBackends(outbox);
  std::vector<Recovery::Owners> owners(condemned.size());
  for (size_t i = 0; i < condemned.size(); ++i) {
    for (const Piece& piece : condemned[i]->pieces) {
      owners[i].push_back(piece.job->SharePayload());
    }
  }
  MutexLock lock(mu_);
  for (size_t i = 0; i < condemned.size(); ++i) {
    Flight* const flight = condemned[i];
    if (!flight->returned) {
      recovery_.Quarantine(flight, std::move(owners[i]), shared_from_this(), now, outbox);
      continue;
    }
    // It came back just now: that is a normal, if late, end.
    for (auto& owner : owners[i]) outbox.released.push_back(std::move(owner));
    flight->state = Flight::State::kQuarantined;
    if (TakeBackLocked(flight, now, outbox)) outbox.delivered.push_back(flight);
  }
  PumpLocked(now, outbox);
}

// --- The thread

void Batcher::Impl::StartThread() {
  thread_ = std::thread([this, now = clock_.Now()] { RunThread(now); });
}

void Batcher::Impl::StopThread() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    wake_thread_.NotifyOne();
  }
  thread_.join();
}

void Batcher::Impl::RunThread(TimeNs expected) {
  // Batches start without waking this thread, so it looks for slow ones from time to time.
  constexpr TimeNs kTickMin = 1'000'000;
  constexpr TimeNs kTickMax = 1'000'000'000;
  const TimeNs tick =
      batch_ns_max_ == 0
          ? kTickMax
          : std::clamp<TimeNs>(static_cast<TimeNs>(batch_ns_max_ / 4), kTickMin, kTickMax);
  while (true) {
    TimeNs now = 0;
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      // So late only because the whole process stood still (stopped, paused, suspended). What is
      // condemned then is judged by the same reading of the clock, and the next reading is compared
      // with it, so that there is no moment in which a standstill goes unnoticed.
      now = clock_.Now();
      const TimeNs late = now - expected;
      if (late > tick) recovery_.Forgive(late);
    }
    Pump(now);
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

// --- The contract

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
uint64_t Batcher::counters_max() const { return impl_->counters_max(); }
bool Batcher::runs_work() const { return impl_->runs_work(); }
void Batcher::Drain() { impl_->Drain(); }
bool Batcher::WaitIdle(TimeNs deadline) { return impl_->WaitIdle(deadline); }
Batcher::Snapshot Batcher::snapshot() const { return impl_->TakeSnapshot(); }

}  // namespace histogram::server
