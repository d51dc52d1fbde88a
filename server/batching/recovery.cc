#include "server/batching/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

namespace histogram::server {

Recovery::Recovery(TimeNs batch_ns_max, Credits& credits, Placer& placer, Scheduler& scheduler)
    : batch_ns_max_(batch_ns_max), credits_(credits), placer_(placer), scheduler_(scheduler) {}

// --- Executing again

void Recovery::Retry(const Flight& flight, std::string_view reason, absl::string_view message,
                     TimeNs now, Outbox& outbox) {
  const BackendMask failed_on = flight.failed_on | BackendMask{1} << flight.backend;
  for (const Piece& piece : flight.pieces) {
    if (scheduler_.EndIfDead(piece, now, outbox)) continue;
    retries_.push_back({.piece = piece,
                        .failed_on = failed_on | placer_.CannotCount(*piece.job),
                        .from = flight.backend,
                        .reason = reason,
                        .message = std::string(message)});
  }
}

void Recovery::Pump(TimeNs now, Outbox& outbox) {
  if (retries_.empty()) return;
  const BackendMask up = credits_.Refresh(outbox);
  while (!retries_.empty() && Settle(retries_.front(), up, now, outbox)) retries_.pop_front();
}

bool Recovery::Settle(Pending& pending, BackendMask up, TimeNs now, Outbox& outbox) {
  const Piece& piece = pending.piece;
  const bool hopeless = (up & ~pending.failed_on) == 0;
  if (!hopeless && !credits_.AnyFree(pending.failed_on)) return false;
  if (scheduler_.EndIfDead(piece, now, outbox)) return true;
  if (hopeless) {
    Fail(pending, up, outbox);
    return true;
  }
  while (credits_.AnyFree(pending.failed_on)) {
    const QueueView view{.payloads = 1, .bytes = piece.bytes, .next_bytes = piece.bytes};
    const Decision decision = placer_.Decide(now, view, *piece.job, pending.failed_on);
    if (decision.backend < 0) return false;
    if (Form(pending, decision, now, outbox)) return true;
  }
  return false;
}

void Recovery::Fail(const Pending& pending, BackendMask up, Outbox& outbox) {
  const bool lost = (pending.failed_on & up) == 0;
  const absl::Status status = MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("the payload could not be counted on ", credits_.info(pending.from).name, " (",
                   pending.message, ") and there is no other backend to fall back on"),
      {.reason = lost ? "DEVICE_LOST" : "BATCH_FAILED"});
  scheduler_.EndPiece(pending.piece, status, outbox);
}

bool Recovery::Form(Pending& pending, const Decision& decision, TimeNs now, Outbox& outbox) {
  Flight* flight = credits_.Take(decision.backend, decision.closed_by, now);
  flight->failed_on = pending.failed_on;
  Job& job = *pending.piece.job;
  if (job.phases != nullptr) job.phases = job.phases->Anew();
  outbox.submits.push_back(flight);
  outbox.fell_back.push_back(
      {.from = pending.from, .to = decision.backend, .reason = pending.reason});
  Piece& rest = pending.piece;
  if (rest.bytes <= decision.bytes_max) {
    flight->Add(rest);
    return true;
  }
  // Larger than a lane of this backend: cut it (again).
  Job::Notes& notes = rest.job->notes_;
  if (std::exchange(rest.whole, false)) {
    ClearCounts(*rest.job);
    notes.pieces = 1;
  }
  ++notes.pieces;
  Piece cut = rest;
  cut.bytes = decision.bytes_max;
  rest.offset += cut.bytes;
  rest.bytes -= cut.bytes;
  flight->Add(cut);
  return false;
}

// --- The watchdog

TimeNs Recovery::WatchdogAt() const {
  TimeNs first = kNever;
  for (int b = 0; b < credits_.size(); ++b) {
    for (const Flight* flight : credits_.flights(b)) {
      if (flight->quarantined) continue;
      first = std::min(first, flight->started_at.load(std::memory_order_relaxed));
    }
  }
  return first == kNever ? kNever : first + batch_ns_max_ + 1;
}

void Recovery::Quarantine(TimeNs now, Outbox& outbox) {
  for (int b = 0; b < credits_.size(); ++b) {
    for (Flight* flight : credits_.flights(b)) {
      const TimeNs started_at = flight->started_at.load(std::memory_order_acquire);
      if (flight->quarantined || started_at >= now || now - started_at <= batch_ns_max_) continue;
      credits_.MarkDown(b, kWatchdog, outbox);
      flight->quarantined = true;
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
