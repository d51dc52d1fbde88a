#include "server/batching/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {

Recovery::Recovery(uint64_t batch_ns_max, Credits& credits, Placer& placer, Scheduler& scheduler)
    : batch_ns_max_(batch_ns_max), credits_(credits), placer_(placer), scheduler_(scheduler) {}

// --- Executing again

void Recovery::Retry(const Flight& flight, std::string_view reason, absl::string_view message,
                     TimeNs now, Outbox& outbox) {
  Pending pending{.pieces = {flight.pieces.rbegin(), flight.pieces.rend()},
                  .bytes = flight.bytes,
                  .failed_on = flight.failed_on | BackendMask{1} << flight.backend |
                               placer_.Unfit(*flight.pieces.front().job),
                  .from = flight.backend,
                  .reason = reason,
                  .message = std::string(message)};
  if (Trim(pending, now, outbox)) retries_.push_back(std::move(pending));
}

void Recovery::Fail(Pending& pending, BackendMask up, Outbox& outbox) {
  const bool lost = (pending.failed_on & up) == 0;
  const absl::Status status = MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("the payload could not be counted on ", credits_.info(pending.from).name, " (",
                   pending.message, ") and there is no other backend to fall back on"),
      {.reason = lost ? "DEVICE_LOST" : "BATCH_FAILED"});
  for (const Piece& piece : pending.pieces) scheduler_.EndPiece(piece, status, outbox);
  pending.pieces.clear();
}

bool Recovery::Trim(Pending& pending, TimeNs now, Outbox& outbox) {
  while (!pending.pieces.empty()) {
    const Piece piece = pending.pieces.back();
    if (!scheduler_.EndIfDead(piece, now, outbox)) return true;
    pending.pieces.pop_back();
    pending.bytes -= piece.bytes;
  }
  return false;
}

void Recovery::Pump(TimeNs now, Outbox& outbox) {
  wake_at_ = kNever;
  if (retries_.empty()) return;
  const BackendMask up = credits_.Refresh(outbox);
  for (Pending& pending : retries_) {
    while (Trim(pending, now, outbox)) {
      if ((up & ~pending.failed_on) == 0) {
        Fail(pending, up, outbox);
        break;
      }
      if (!credits_.AnyFree(pending.failed_on)) break;
      const Piece& next = pending.pieces.back();
      const QueueView view{.payloads = static_cast<uint32_t>(pending.pieces.size()),
                           .bytes = pending.bytes,
                           .oldest_enqueued_at = next.job->enqueued_at,
                           .tightest_deadline = now,  // late already: close at once
                           .next_bytes = next.bytes};
      const Decision decision = placer_.Decide(now, view, *next.job, pending.failed_on);
      wake_at_ = std::min(wake_at_, decision.wake_at);
      if (decision.action != Decision::Action::kDispatch) break;
      Form(pending, decision, now, outbox);
    }
  }
  std::erase_if(retries_, [](const Pending& pending) { return pending.pieces.empty(); });
}

void Recovery::Form(Pending& pending, const Decision& decision, TimeNs now, Outbox& outbox) {
  Flight* flight = credits_.Take(decision.backend, decision.closed_by, now);
  flight->failed_on = pending.failed_on;
  outbox.submits.push_back(flight);
  outbox.fell_back.push_back(
      {.from = pending.from, .to = decision.backend, .reason = pending.reason});
  while (flight->pieces.size() < decision.payloads_max && Trim(pending, now, outbox)) {
    Piece& next = pending.pieces.back();
    const bool fits =
        flight->pieces.empty() ||
        placer_.MayShareBatch(decision.backend, *flight->pieces.front().job, *next.job);
    if (!fits) return;
    if (flight->bytes + next.bytes <= decision.bytes_max) {
      pending.bytes -= next.bytes;
      flight->Add(next);
      pending.pieces.pop_back();
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
    pending.bytes -= cut.bytes;
    flight->Add(cut);
    return;
  }
}

// --- The watchdog

TimeNs Recovery::WatchdogAt() const {
  if (batch_ns_max_ == 0) return kNever;
  TimeNs first = kNever;
  for (int b = 0; b < credits_.size(); ++b) {
    for (const Flight* flight : credits_.flights(b)) {
      if (flight->state != Flight::State::kExecuting) continue;
      first = std::min(first, flight->started_at.load(std::memory_order_relaxed));
    }
  }
  const auto limit = static_cast<TimeNs>(batch_ns_max_);
  return first > kNever - limit - 1 ? kNever : first + limit + 1;
}

void Recovery::Quarantine(TimeNs now, Outbox& outbox) {
  if (batch_ns_max_ == 0) return;
  for (int b = 0; b < credits_.size(); ++b) {
    for (Flight* flight : credits_.flights(b)) {
      if (flight->state != Flight::State::kExecuting) continue;
      const TimeNs started_at = flight->started_at.load(std::memory_order_acquire);
      if (started_at >= now || static_cast<uint64_t>(now - started_at) <= batch_ns_max_) continue;
      credits_.MarkDown(b, kWatchdog, outbox);
      flight->state = Flight::State::kQuarantined;
      for (const Piece& piece : flight->pieces) flight->owners.push_back(piece.job->payload_owner);
      Retry(*flight, kWatchdog, "it took longer than --batch-max", now, outbox);
      flight->pieces.clear();
    }
  }
}

void Recovery::Forgive(TimeNs ns) {
  for (int b = 0; b < credits_.size(); ++b) {
    for (Flight* flight : credits_.flights(b)) {
      if (flight->started_at.load(std::memory_order_relaxed) == kNever) continue;
      flight->started_at.fetch_add(ns, std::memory_order_relaxed);
    }
  }
}

}  // namespace histogram::server
