// Backends that fail or hang: what they had goes elsewhere. And the thread that watches.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "server/batching/batcher_impl.h"

namespace histogram::server {

absl::Status NoBackendUp() {
  return MakeError(absl::StatusCode::kUnavailable, "no backend is up any more",
                   {.reason = "DEVICE_LOST", .field = "", .limit = 0, .retry_after_ms = {}});
}

// --- Backends that went down

BackendMask Batcher::Impl::RefreshLocked(Work& work) {
  BackendMask up = 0;
  for (size_t i = 0; i < executors_.size(); ++i) {
    if (executors_[i].down) continue;
    if (executors_[i].backend->up()) {
      up |= BackendMask{executors_[i].lanes > 0} << i;
    } else {
      MarkDownLocked(static_cast<int>(i), kDeviceLost, work);
    }
  }
  return up;
}

void Batcher::Impl::MarkDownLocked(int backend, std::string_view reason, Work& work) {
  if (std::exchange(executors_[backend].down, true)) return;
  work.downs.push_back({.backend = backend, .reason = reason});
}

void Batcher::Impl::FailQueueLocked(Work& work) {
  const absl::Status status = NoBackendUp();
  for (const auto c : {FairQueue::kSmall, FairQueue::kLarge}) {
    while (queue_.payloads(c) > 0) {
      Job* job = queue_.Front(c);
      queue_.Drop(c);
      ++in_flight_;
      EndPieceLocked({.job = job, .whole = job->notes_.pieces == 0}, status, work);
    }
  }
}

// --- Executing again

void Batcher::Impl::RetryLocked(const Flight& flight, absl::Span<const Piece> pieces,
                                std::string_view reason, absl::string_view message, TimeNs now,
                                Work& work) {
  Retry retry;
  retry.failed_on = flight.failed_on | BackendMask{1} << flight.backend;
  if (!pieces.empty()) retry.failed_on |= UnfitLocked(*pieces.front().job);
  retry.from = flight.backend;
  retry.reason = reason;
  retry.message = std::string(message);
  retry.pieces.assign(pieces.rbegin(), pieces.rend());
  for (const Piece& piece : pieces) retry.bytes += piece.bytes;
  if (TrimRetryLocked(retry, now, work)) retries_.push_back(std::move(retry));
}

void Batcher::Impl::FailRetryLocked(Retry& retry, BackendMask up, Work& work) {
  const bool lost = (retry.failed_on & up) == 0;
  const absl::Status status = MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("the payload could not be counted on ", backends_[retry.from]->info().name, " (",
                   retry.message, ") and there is no other backend to fall back on"),
      {.reason = lost ? "DEVICE_LOST" : "BATCH_FAILED",
       .field = "",
       .limit = 0,
       .retry_after_ms = {}});
  for (const Piece& piece : retry.pieces) EndPieceLocked(piece, status, work);
  retry.pieces.clear();
}

bool Batcher::Impl::TrimRetryLocked(Retry& retry, TimeNs now, Work& work) {
  while (!retry.pieces.empty()) {
    const Piece piece = retry.pieces.back();
    const bool failed = !piece.whole && !piece.job->notes_.failure.ok();
    if (!failed && !DeadLocked(*piece.job, now)) return true;
    retry.pieces.pop_back();
    retry.bytes -= piece.bytes;
    if (failed) {
      EndPieceLocked(piece, piece.job->notes_.failure, work);
    } else {
      DropPieceLocked(piece, work);
    }
  }
  return false;
}

void Batcher::Impl::PumpRetriesLocked(TimeNs now, Work& work) {
  const BackendMask up = RefreshLocked(work);
  for (Retry& retry : retries_) {
    while (TrimRetryLocked(retry, now, work)) {
      if ((up & ~retry.failed_on) == 0) {
        FailRetryLocked(retry, up, work);
        break;
      }
      if (!AnyLaneFreeLocked(retry.failed_on)) break;
      const Piece& next = retry.pieces.back();
      const QueueView view{.payloads = static_cast<uint32_t>(retry.pieces.size()),
                           .bytes = retry.bytes,
                           .oldest_enqueued_at = next.job->enqueued_at,
                           .tightest_deadline = now,  // late already: close at once
                           .next_bytes = next.bytes};
      const Decision decision = DecideLocked(now, view, *next.job, retry.failed_on, false);
      if (decision.action != Decision::Action::kDispatch) break;
      FormRetryLocked(retry, decision, now, work);
    }
  }
  std::erase_if(retries_, [](const Retry& retry) { return retry.pieces.empty(); });
}

void Batcher::Impl::FormRetryLocked(Retry& retry, const Decision& decision, TimeNs now,
                                    Work& work) {
  Flight* flight = NewFlightLocked(decision, decision.closed_by, now);
  flight->failed_on = retry.failed_on;
  work.submits.push_back(flight);
  work.fell_back.push_back({.from = retry.from, .to = decision.backend, .reason = retry.reason});
  while (flight->pieces.size() < decision.payloads_max && TrimRetryLocked(retry, now, work)) {
    Piece& next = retry.pieces.back();
    if (flight->bytes + next.bytes <= decision.bytes_max) {
      retry.bytes -= next.bytes;
      flight->Add(next);
      retry.pieces.pop_back();
      continue;
    }
    if (!flight->pieces.empty()) return;
    // Larger than a lane of this backend: cut it (again).
    if (next.whole) {
      next.whole = false;
      ClearCounts(*next.job);
      next.job->notes_.pieces = 1;
    }
    ++next.job->notes_.pieces;
    Piece cut = next;
    cut.bytes = decision.bytes_max;
    next.offset += cut.bytes;
    next.bytes -= cut.bytes;
    retry.bytes -= cut.bytes;
    flight->Add(cut);
    return;
  }
}

// --- The watchdog

TimeNs Batcher::Impl::WatchdogAtLocked() const {
  if (watchdog_ns_ == 0) return kNever;
  TimeNs first = kNever;
  for (const Executor& executor : executors_) {
    for (const Flight* flight : executor.flights) {
      if (flight->state != Flight::State::kExecuting) continue;
      first = std::min(first, flight->started_at.load(std::memory_order_relaxed));
    }
  }
  const auto limit = static_cast<TimeNs>(watchdog_ns_);
  return first > kNever - limit - 1 ? kNever : first + limit + 1;
}

std::vector<Flight*> Batcher::Impl::CondemnLocked(TimeNs now, Work& work) {
  std::vector<Flight*> condemned;
  if (watchdog_ns_ == 0) return condemned;
  for (size_t i = 0; i < executors_.size(); ++i) {
    for (Flight* flight : executors_[i].flights) {
      if (flight->state != Flight::State::kExecuting) continue;
      const TimeNs started_at = flight->started_at.load(std::memory_order_acquire);
      if (started_at >= now || static_cast<uint64_t>(now - started_at) <= watchdog_ns_) continue;
      flight->state = Flight::State::kCondemned;
      condemned.push_back(flight);
      MarkDownLocked(static_cast<int>(i), kWatchdog, work);
    }
  }
  return condemned;
}

void Batcher::Impl::Quarantine(const std::vector<Flight*>& condemned, TimeNs now, Work& work) {
  // The lane must not be handed anything more, and the jobs are asked, without the lock.
  Report(work);
  std::vector<std::vector<std::shared_ptr<const void>>> owners(condemned.size());
  for (size_t i = 0; i < condemned.size(); ++i) {
    for (const Piece& piece : condemned[i]->pieces) {
      owners[i].push_back(piece.job->SharePayload());
    }
  }
  MutexLock lock(mu_);
  for (size_t i = 0; i < condemned.size(); ++i) {
    QuarantineLocked(condemned[i], owners[i], now, work);
  }
  PumpLocked(now, work);
}

void Batcher::Impl::QuarantineLocked(Flight* flight,
                                     std::vector<std::shared_ptr<const void>>& owners, TimeNs now,
                                     Work& work) {
  flight->state = Flight::State::kQuarantined;
  if (flight->returned) {
    // It came back just now: that is a normal, if late, end.
    for (auto& owner : owners) work.released.push_back(std::move(owner));
    ReturnedLocked(flight, now, work);
    return;
  }
  // Pieces whose payload is shared leave; the others wait for the lane.
  std::vector<Piece> staying, leaving;
  for (size_t i = 0; i < flight->pieces.size(); ++i) {
    const Piece& piece = flight->pieces[i];
    if (owners[i] == nullptr) {
      staying.push_back(piece);
    } else {
      leaving.push_back(piece);
      flight->owners.push_back(std::move(owners[i]));
    }
  }
  flight->Keep(std::move(staying));
  flight->batcher = shared_from_this();
  if (!leaving.empty()) {
    RetryLocked(*flight, leaving, kWatchdog, "it took longer than batch_us_max", now, work);
  }
}

void Batcher::Impl::ForgiveLocked(TimeNs ns) {
  for (const Executor& executor : executors_) {
    for (Flight* flight : executor.flights) {
      if (flight->started_at.load(std::memory_order_relaxed) == kNever) continue;
      flight->started_at.fetch_add(ns, std::memory_order_relaxed);
    }
  }
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
  const TimeNs tick = watchdog_ns_ == 0 ? kTickMax
                                        : std::clamp<TimeNs>(static_cast<TimeNs>(watchdog_ns_ / 4),
                                                             kTickMin, kTickMax);
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
      if (late > tick) ForgiveLocked(late);
    }
    PumpAt(now);
    MutexLock lock(mu_);
    expected = now;
    const TimeNs until = std::min({wake_at_, WatchdogAtLocked(), now + tick});
    const TimeNs sleep = until - clock_.Now();
    if (stopping_ || sleep <= 0) continue;
    sleeps_until_ = until;
    wake_thread_.WaitFor(mu_, std::chrono::nanoseconds(sleep));
    sleeps_until_ = 0;
    expected = until;
  }
}

}  // namespace histogram::server
