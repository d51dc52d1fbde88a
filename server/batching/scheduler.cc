#include "server/batching/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {
namespace {

// Pieces of a cut payload begin at multiples of this.
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

Scheduler::Scheduler(const BatchingLimits& limits, Credits& credits, Placer& placer)
    : limits_(limits),
      credits_(credits),
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
  constexpr double kMaxMs = 1000;
  // Queued payloads may also be held back for a batch to fill.
  const double ns = static_cast<double>(admission_.charged_bytes()) / credits_.BytesPerNs() +
                    static_cast<double>(limits_.batch_delay_us_max) * 1e3;
  return {.room = room,
          .charge = job.charge_bytes,
          .charged = admission_.charged_bytes(),
          .held = admission_.HeldBy(job.caller),
          .limit = limits_.queue_bytes_max,
          .retry_after_ms = static_cast<uint32_t>(std::clamp(ns / 1e6, 1.0, kMaxMs))};
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
    if (dead(*job)) {
      ++in_flight_;
      EndIfDead({.job = job}, now, outbox);  // and with it the charge
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
  const BackendMask unfit = placer_.CannotCount(front);
  if (!credits_.AnyFree(unfit)) {
    if ((credits_.Refresh(outbox) & ~unfit) != 0) return dropped;
    front.notes_.failure = MakeError(absl::StatusCode::kUnavailable, "no backend is up any more",
                                     {.reason = "DEVICE_LOST"});
    return DropDead(c, now, outbox);
  }
  QueueView view{.payloads = queue_.payloads(c),
                 .bytes = queue_.bytes(c),
                 .next_bytes = FairQueue::Left(front),
                 .next_executing = front.notes_.pieces > 1};
  if (limits_.batch_delay_us_max > 0 && view.bytes < limits_.batch_bytes_max &&
      view.payloads < limits_.batch_payloads_max) {
    const auto until = front.enqueued_at + static_cast<TimeNs>(limits_.batch_delay_us_max * 1000);
    if (now < until) {
      wake_at_ = std::min(wake_at_, until);
      return dropped;
    }
  }
  const Decision decision = placer_.Decide(now, view, front, 0);
  wake_at_ = std::min(wake_at_, decision.wake_at);
  if (decision.backend < 0) return dropped;
  Form(c, decision, now, outbox);
  return true;
}

void Scheduler::Form(FairQueue::SizeClass c, const Decision& decision, TimeNs now, Outbox& outbox) {
  const auto take_lane = [&] {
    return outbox.submits.emplace_back(credits_.Take(decision.backend, decision.closed_by, now));
  };
  Job* first = queue_.Front(c);
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
  const Job& next = *queue_.Front(c);
  const uint64_t left = FairQueue::Left(next);
  if (left > decision.fill_bytes_max - std::min(flight.bytes, decision.fill_bytes_max)) {
    return false;
  }
  // A payload that may be cut over lanes, or was, travels alone.
  if (left >= limits_.split_bytes_min || next.notes_.pieces > 0) return false;
  return placer_.MayShareBatch(decision.backend, *flight.pieces.front().job, next);
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
      ClearCounts(*job);
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

bool Scheduler::EndIfDead(const Piece& piece, TimeNs now, Outbox& outbox) {
  const Job& job = *piece.job;
  if (!job.notes_.failure.ok()) {
    EndPiece(piece, job.notes_.failure, outbox);
    return true;
  }
  if (Cancelled(job)) {
    ++outbox.cancelled;
    EndPiece(piece, absl::CancelledError("the request was cancelled"), outbox);
    return true;
  }
  if (now < job.deadline) return false;
  ++outbox.expired;
  EndPiece(piece, absl::DeadlineExceededError("the deadline passed in the queue"), outbox);
  return true;
}

bool Scheduler::DropDead(FairQueue::SizeClass c, TimeNs now, Outbox& outbox) {
  bool any = false;
  while (queue_.payloads(c) > 0) {
    Job* job = queue_.Front(c);
    if (job->notes_.failure.ok() && !Unwanted(*job, now)) break;
    any = true;
    queue_.Drop(c);
    ++in_flight_;
    EndIfDead({.job = job, .whole = job->notes_.pieces == 0}, now, outbox);
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
    EndPiece(piece, absl::OkStatus(), outbox);
  }
}

void Scheduler::EndPiece(const Piece& piece, const absl::Status& status, Outbox& outbox) {
  if (piece.whole) {
    Finish(piece.job, status, outbox);
    return;
  }
  Job::Notes& notes = piece.job->notes_;
  // The pieces that lanes have are waited for; what is still in the queue will be dropped there.
  if (!status.ok() && notes.failure.ok()) notes.failure = status;
  if (--notes.pieces == 0) Finish(piece.job, std::move(notes.failure), outbox);
}

void Scheduler::Finish(Job* job, absl::Status status, Outbox& outbox) {
  admission_.Discharge(job);
  --in_flight_;
  --accepted_;
  outbox.finished.push_back({.job = job, .status = std::move(status)});
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
