#include "server/batching/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {
namespace {

// The size of a piece is rounded up to a multiple of this, unless a lane takes less.
constexpr uint64_t kPieceAlign = 4096;

// Of the pieces that a payload of `left` bytes is cut into.
uint64_t PieceBytes(uint64_t left, const Decision& decision) {
  const uint64_t even = left / decision.parts + (left % decision.parts != 0 ? 1 : 0);
  const uint64_t aligned = (even + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
  return std::min(aligned, decision.bytes_max);
}

bool Cancelled(const Job& job) { return job.cancelled.load(std::memory_order_relaxed); }

}  // namespace

absl::Status Scheduler::Refusal::ToStatus() const {
  if (room == Room::kDraining) {
    return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                     {.reason = "DRAINING"});
  }
  if (room == Room::kTooLarge) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("payload and reply take ", charge, " bytes; the limit of the queue is ", limit,
                     " bytes (queue_bytes_max)"),
        {.reason = "PAYLOAD_TOO_LARGE", .field = "payload", .limit = limit});
  }
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the queue is full: ", charged, " of ", limit,
                                " bytes (queue_bytes_max) are taken, ", held,
                                " of them by this caller, and this request needs ", charge,
                                "; try again in ", retry_after_ms, " ms"),
                   {.reason = "QUEUE_FULL", .limit = limit, .retry_after_ms = retry_after_ms});
}

Scheduler::Scheduler(const BatchingLimits& limits, Placer& placer)
    : limits_(limits),
      batch_ns_max_(static_cast<TimeNs>(limits.batch_us_max * 1000)),
      placer_(placer),
      queue_(limits.small_bytes_max),
      admission_(limits.queue_bytes_max) {}

// --- Accepting

Scheduler::Room Scheduler::RoomFor(const Job& job) const {
  if (draining_) return Room::kDraining;
  if (job.charge_bytes > limits_.queue_bytes_max) return Room::kTooLarge;
  return admission_.HasRoom(job) ? Room::kYes : Room::kNotNow;
}

Scheduler::Refusal Scheduler::Refuse(const Job& job, Room room) const {
  assert(room != Room::kYes);
  // As if each lane counted a byte a nanosecond. Queued payloads may also be held back for a batch
  // to fill.
  constexpr uint64_t kBytesPerMs = 1'000'000, kMaxMs = 1000;
  const uint64_t ms = admission_.charged_bytes() / (std::max(1U, placer_.lanes()) * kBytesPerMs) +
                      limits_.batch_delay_us_max / 1000;
  return {.room = room,
          .charge = job.charge_bytes,
          .charged = admission_.charged_bytes(),
          .held = admission_.HeldBy(job.caller),
          .limit = limits_.queue_bytes_max,
          .retry_after_ms = static_cast<uint32_t>(std::clamp<uint64_t>(ms, 1, kMaxMs))};
}

void Scheduler::Accept(Job* job, TimeNs now) {
  ++accepted_;
  job->enqueued_at = now;
  job->queue_ns = 0;
  job->notes_ = {};
}

void Scheduler::Enter(Job* job, TimeNs now) {
  assert(RoomFor(*job) == Room::kYes);
  Accept(job, now);
  admission_.Charge(job);
  job->notes_.kind = placer_.Prefer(*job, now);
  queue_.Push(job);
}

void Scheduler::Wait(Job* job, TimeNs now) {
  assert(RoomFor(*job) == Room::kNotNow);
  Accept(job, now);
  admission_.Wait(job);
  ++waiting_;
}

InlineGate::Classes Scheduler::InlineClasses() const {
  if (draining_ || admission_.waits()) return 0;
  if (limits_.batch_delay_us_max > 0) return 0;  // a payload may wait for others
  // Payloads that wait while a lane of the CPU is free wait for a GPU: passing them takes nothing
  // from them.
  if (!queue_.empty() && !placer_.BothKindsUp()) return 0;
  return placer_.CpuClasses();
}

bool Scheduler::LetIn(TimeNs now, Outbox& outbox) {
  bool any = false;
  const auto dead = [now](const Job& job) { return Unwanted(job, now); };
  while (Job* const job = admission_.Next(dead)) {
    --waiting_;
    admission_.Charge(job);
    if (IsDead(*job, now, outbox)) {
      ++in_flight_;
      Finish(job, outbox);  // and with it the charge
    } else {
      job->notes_.kind = placer_.Prefer(*job, now);
      queue_.Push(job);
      any = true;
    }
  }
  return any;
}

// --- Forming batches

void Scheduler::Pump(TimeNs now, Outbox& outbox) {
  wake_at_ = kNever;
  do {
    while (!queue_.empty()) {
      const FairQueue::SizeClass first = queue_.Next();
      const auto other = first == FairQueue::kSmall ? FairQueue::kLarge : FairQueue::kSmall;
      if (!DispatchFrom(first, now, outbox) && !DispatchFrom(other, now, outbox)) break;
    }
  } while (admission_.waits() && LetIn(now, outbox));
}

bool Scheduler::DispatchFrom(FairQueue::SizeClass c, TimeNs now, Outbox& outbox) {
  const bool dropped = DropDead(c, now, outbox);
  if (queue_.payloads(c) == 0) return dropped;
  Job& front = *queue_.Front(c);
  const BackendMask unfit = placer_.CannotCount(front) | front.notes_.failed_on;
  if (!placer_.AnyFree(unfit)) {
    const BackendMask up = placer_.Refresh(outbox);
    if ((up & ~unfit) != 0) return dropped;
    front.notes_.failure = NoBackendFor(front, up, unfit);
    return DropDead(c, now, outbox);
  }
  QueueView view{.payloads = queue_.payloads(c),
                 .bytes = queue_.bytes(c),
                 .next_bytes = FairQueue::Left(front),
                 .next_executing = front.notes_.pieces > 1};
  // Once it drains, nothing more will come to fill a batch.
  if (limits_.batch_delay_us_max > 0 && !draining_ && view.bytes < limits_.batch_bytes_max &&
      view.payloads < limits_.batch_payloads_max) {
    const auto until = front.enqueued_at + static_cast<TimeNs>(limits_.batch_delay_us_max * 1000);
    if (now < until) {
      wake_at_ = std::min(wake_at_, until);
      return dropped;
    }
  }
  const Decision decision = placer_.Decide(now, view, front, front.notes_.failed_on);
  wake_at_ = std::min(wake_at_, decision.wake_at);
  if (decision.backend < 0) return dropped;
  Form(c, decision, now, outbox);
  return true;
}

void Scheduler::Form(FairQueue::SizeClass c, const Decision& decision, TimeNs now, Outbox& outbox) {
  Job* first = queue_.Front(c);
  const auto take_lane = [&] {
    const Job::Notes& notes = first->notes_;
    if (notes.failed_on != 0) {
      outbox.fell_back.push_back(
          {.from = notes.failed_last, .to = decision.backend, .reason = notes.reason});
    }
    return outbox.submits.emplace_back(placer_.Take(decision.backend, decision.closed_by, now));
  };
  const uint64_t left = FairQueue::Left(*first);
  if (decision.parts > 1 || left > decision.bytes_max || first->notes_.pieces > 0) {
    const uint64_t piece_bytes = PieceBytes(left, decision);
    bool gone = false;
    for (uint32_t i = 0; i < decision.parts && !gone; ++i) {
      const uint64_t bytes = std::min(piece_bytes, FairQueue::Left(*first));
      gone = TakeFrom(c, first, bytes, now, *take_lane());
    }
    return;
  }
  Flight& flight = *take_lane();
  do {
    Job* job = queue_.Front(c);
    TakeFrom(c, job, FairQueue::Left(*job), now, flight);
    if (flight.pieces.size() >= decision.payloads_max) return;
    DropDead(c, now, outbox);
  } while (queue_.payloads(c) > 0 && MayJoin(c, flight, decision));
}

bool Scheduler::MayJoin(FairQueue::SizeClass c, const Flight& flight, const Decision& decision) {
  const Job& first = *flight.pieces.front().job;
  const Job& next = *queue_.Front(c);
  // What made a backend fail may be one of them.
  if ((first.notes_.failed_on | next.notes_.failed_on) != 0) return false;
  const uint64_t left = FairQueue::Left(next);
  if (left > decision.fill_bytes_max - std::min(flight.bytes, decision.fill_bytes_max)) {
    return false;
  }
  // A payload that may be cut over lanes, or was, travels alone.
  if (left >= limits_.split_bytes_min || next.notes_.pieces > 0) return false;
  return placer_.MayShareBatch(decision.backend, first, next);
}

bool Scheduler::TakeFrom(FairQueue::SizeClass c, Job* job, uint64_t bytes, TimeNs now,
                         Flight& flight) {
  Job::Notes& notes = job->notes_;
  const uint64_t offset = notes.dispatched;
  if (offset == 0) {
    job->queue_ns = static_cast<uint64_t>(std::max<TimeNs>(0, now - job->enqueued_at));
  }
  const bool whole = offset == 0 && bytes == job->bytes;
  const bool gone = queue_.Take(c, bytes);
  if (!whole) {
    if (offset == 0) {
      job->counters.assign(job->plan.counter_count(), 0);
      notes.pieces = 1;
    }
    if (!gone) ++notes.pieces;
  }
  if (gone) ++in_flight_;
  flight.Add({.job = job, .offset = offset, .bytes = bytes, .whole = whole});
  return gone;
}

// --- Ending

bool Scheduler::Unwanted(const Job& job, TimeNs now) {
  return Cancelled(job) || now >= job.deadline;
}

bool Scheduler::IsDead(Job& job, TimeNs now, Outbox& outbox) {
  absl::Status& failure = job.notes_.failure;
  if (!failure.ok()) return true;
  if (Cancelled(job)) {
    ++outbox.cancelled;
    failure = absl::CancelledError("the request was cancelled");
  } else if (now >= job.deadline) {
    ++outbox.expired;
    failure = absl::DeadlineExceededError("the deadline passed in the queue");
  }
  return !failure.ok();
}

bool Scheduler::DropDead(FairQueue::SizeClass c, TimeNs now, Outbox& outbox) {
  bool any = false;
  while (queue_.payloads(c) > 0) {
    Job* job = queue_.Front(c);
    if (!IsDead(*job, now, outbox) && !job->notes_.again) break;
    any = true;
    queue_.Drop(c);
    ++in_flight_;
    EndPiece({.job = job, .whole = job->notes_.pieces == 0}, outbox);
  }
  return any;
}

void Scheduler::Landed(Flight& flight, Outbox& outbox) {
  in_flight_ -= flight.whole_jobs;
  accepted_ -= flight.whole_jobs;
  for (const Piece& piece : flight.pieces) {
    if (piece.whole) {
      admission_.Discharge(piece.job);
      continue;
    }
    flight.AddUp(piece);
    piece.job->report = flight.batch->report;
    EndPiece(piece, outbox);
  }
}

void Scheduler::Failed(const Flight& flight, std::string_view reason, const absl::Status& error,
                       Outbox& outbox) {
  for (const Piece& piece : flight.pieces) {
    Job::Notes& notes = piece.job->notes_;
    notes.again = true;
    notes.failed_on |= BackendMask{1} << flight.backend;
    notes.failed_last = flight.backend;
    notes.reason = reason;
    notes.error = error;
    EndPiece(piece, outbox);
  }
}

void Scheduler::EndPiece(const Piece& piece, Outbox& outbox) {
  Job* const job = piece.job;
  Job::Notes& notes = job->notes_;
  // The pieces that lanes have are waited for; what is still in the queue will be dropped there.
  if (!piece.whole && --notes.pieces > 0) return;
  if (!notes.again || !notes.failure.ok()) return Finish(job, outbox);
  --in_flight_;
  notes.again = false;
  notes.dispatched = 0;
  if (job->phases != nullptr) job->phases = job->phases->Anew();
  queue_.Push(job);
}

void Scheduler::Finish(Job* job, Outbox& outbox) {
  admission_.Discharge(job);
  --in_flight_;
  --accepted_;
  outbox.finished.push_back({.job = job, .status = std::move(job->notes_.failure)});
}

absl::Status Scheduler::NoBackendFor(const Job& job, BackendMask up, BackendMask unfit) const {
  const Job::Notes& notes = job.notes_;
  if (notes.failed_on == 0) {
    return MakeError(absl::StatusCode::kUnavailable, "no backend is up any more",
                     {.reason = "DEVICE_LOST"});
  }
  return MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("the payload could not be counted on ", placer_.info(notes.failed_last).name,
                   " (", notes.error.message(), ") and there is no other backend to fall back on"),
      {.reason = (unfit & up) == 0 ? "DEVICE_LOST" : "BATCH_FAILED"});
}

// --- The watchdog

TimeNs Scheduler::WatchdogAt() const {
  TimeNs first = kNever;
  for (int b = 0; b < placer_.size(); ++b) {
    for (const Flight* flight : placer_.flights(b)) {
      if (flight->quarantined) continue;
      first = std::min(first, flight->started_at.load(std::memory_order_relaxed));
    }
  }
  return first == kNever ? kNever : first + batch_ns_max_ + 1;
}

void Scheduler::Quarantine(TimeNs now, Outbox& outbox) {
  for (int b = 0; b < placer_.size(); ++b) {
    for (Flight* flight : placer_.flights(b)) {
      const TimeNs started_at = flight->started_at.load(std::memory_order_acquire);
      if (flight->quarantined || started_at >= now || now - started_at <= batch_ns_max_) continue;
      placer_.MarkDown(b, kWatchdog, outbox);
      flight->quarantined = true;
      for (const Piece& piece : flight->pieces) flight->owners.push_back(piece.job->payload_owner);
      Failed(*flight, kWatchdog, absl::UnavailableError("it took longer than --batch-max"), outbox);
      flight->pieces.clear();
    }
  }
}

void Scheduler::Forgive(TimeNs ns) {
  for (int b = 0; b < placer_.size(); ++b) {
    for (Flight* flight : placer_.flights(b)) {
      if (flight->started_at.load(std::memory_order_relaxed) == kNever) continue;
      flight->started_at.fetch_add(ns, std::memory_order_relaxed);
    }
  }
}

void Scheduler::Report(BatcherSnapshot& snapshot) const {
  for (const auto c : {FairQueue::kSmall, FairQueue::kLarge}) {
    snapshot.queue_payloads += queue_.payloads(c);
    snapshot.queue_bytes += queue_.bytes(c);
  }
  snapshot.in_flight = in_flight_;
  snapshot.charged_bytes = admission_.charged_bytes();
  snapshot.waiting = waiting_;
}

}  // namespace histogram::server
