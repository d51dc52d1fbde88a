// What the batcher does under its lock on the straight way: form, place, take back.
#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

#include "server/base/thresholds.h"
#include "server/batching/batcher_impl.h"

namespace histogram::server {
namespace {

// Pieces of a cut payload begin at multiples of this.
constexpr uint64_t kPieceAlign = 4096;

// Quanta of the fair queue: small enough that many callers are each served soon, large enough that
// one service is not made up for by a great many missed turns.
FairQueue::Quanta QuantaFor(const BatchingLimits& limits) {
  constexpr uint64_t kMax = 4 << 20;
  return {
      .small = static_cast<int64_t>(std::clamp<uint64_t>(limits.small_bytes_max / 8, 4096, kMax)),
      .large = static_cast<int64_t>(
          std::clamp<uint64_t>(limits.batch_bytes_max / 4, uint64_t{64} << 10, kMax))};
}

// Of the pieces that a payload of `left` bytes is cut into.
uint64_t PieceBytes(uint64_t left, const Decision& decision) {
  const uint64_t even = left / decision.parts + (left % decision.parts != 0 ? 1 : 0);
  const uint64_t aligned = (even + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
  return std::min(aligned, decision.bytes_max);
}

// A queue that waits this long for the preferred kind of backend takes the other one: a lane hangs,
// or the host stands still.
constexpr TimeNs kPatienceNs = 20'000'000;

Kind KindOf(bool executes_inline) { return executes_inline ? Kind::kCpu : Kind::kGpu; }

// What `backend` would take for the batch that it would get of that queue.
uint64_t PredictNs(const Backend& backend, const QueueView& queue, const BatchingLimits& limits) {
  const BackendInfo& info = backend.info();
  const uint64_t bytes = std::min({queue.bytes, limits.batch_bytes_max, info.lane_bytes});
  const uint32_t payloads =
      std::min({queue.payloads, limits.batch_payloads_max, info.lane_payloads});
  const Workload workload{.payload_bytes = std::min(queue.next_bytes, bytes),
                          .payload_count = std::max<uint32_t>(1, payloads),
                          .batch_bytes = bytes};
  return std::min<uint64_t>(backend.EstimateNs(workload), kNever / 4);
}

// By what a lone payload from the middle of each size class is predicted to take. None where only
// one kind of backend is there.
std::optional<Preference> Prefer(const std::vector<Backend*>& backends,
                                 const BatchingLimits& limits) {
  std::array<Kind, Preference::kClasses> estimated{};
  for (size_t c = 0; c < Preference::kClasses; ++c) {
    const uint64_t bytes = Preference::BytesMax(c) / 2;
    const QueueView lone{.payloads = 1, .bytes = bytes, .next_bytes = bytes};
    std::array<uint64_t, 2> least = {kNever, kNever};
    for (const Backend* backend : backends) {
      uint64_t& ns = least[static_cast<size_t>(KindOf(backend->info().executes_inline))];
      ns = std::min(ns, PredictNs(*backend, lone, limits));
    }
    if (std::max(least[0], least[1]) == kNever) return std::nullopt;
    estimated[c] = least[0] <= least[1] ? Kind::kCpu : Kind::kGpu;
  }
  return Preference(estimated);
}

BackendMask BytesOnly(const std::vector<Backend*>& backends) {
  BackendMask mask = 0;
  for (size_t i = 0; i < backends.size(); ++i) {
    if (!backends[i]->info().counts_typed) mask |= BackendMask{1} << i;
  }
  return mask;
}

// No sample is cut in two.
uint64_t WholeSamples(uint64_t bytes, const Job& job) {
  const uint64_t size = SampleBytesOf(job.plan);
  return std::max(size, bytes - bytes % size);
}

bool Cancelled(const Job& job) { return job.cancelled.load(std::memory_order_relaxed); }

}  // namespace

Batcher::Impl::Impl(std::vector<Backend*> backends, const BatchingLimits& limits, Clock& clock,
                    Observer& observer)
    : backends_(std::move(backends)),
      clock_(clock),
      observer_(observer),
      watchdog_ns_(std::min<uint64_t>(limits.batch_us_max, kNever / 2000) * 1000),
      bytes_only_(BytesOnly(backends_)),
      limits_(limits),
      queue_(limits.small_bytes_max, QuantaFor(limits)),
      admission_(limits.queue_bytes_max),
      preference_(Prefer(backends_, limits)) {
  assert(backends_.size() <= kBackendsMax);
  for (Backend* backend : backends_) {
    const BackendInfo& info = backend->info();
    Executor& executor = executors_.emplace_back();
    executor.backend = backend;
    executor.lanes = info.lanes;
    executor.lane_bytes = info.lane_bytes;
    executor.lane_payloads = info.lane_payloads;
    executor.executes_inline = info.executes_inline;
    executor.flights.reserve(info.lanes);
  }
}

Batcher::Impl::~Impl() = default;

// --- Credits

Flight* Batcher::Impl::NewFlightLocked(const Decision& decision, ClosedBy closed_by, TimeNs now) {
  Flight* flight = nullptr;
  if (!idle_flights_.empty()) {
    flight = idle_flights_.back();
    idle_flights_.pop_back();
  } else {
    flights_.push_back(std::make_unique<Flight>());
    flight = flights_.back().get();
  }
  Executor& executor = executors_[decision.backend];
  flight->state = Flight::State::kExecuting;
  flight->backend = decision.backend;
  flight->closed_by = closed_by;
  flight->formed_at = now;
  flight->expected_end = now + static_cast<TimeNs>(decision.cost_ns);
  flight->slot = executor.flights.size();
  executor.flights.push_back(flight);
  return flight;
}

void Batcher::Impl::LandLocked(Flight* flight) {
  std::vector<Flight*>& flights = executors_[flight->backend].flights;
  flights[flight->slot] = flights.back();
  flights[flight->slot]->slot = flight->slot;
  flights.pop_back();
}

void Batcher::Impl::RecycleLocked(Flight* flight) {
  flight->Reset();
  idle_flights_.push_back(flight);
}

bool Batcher::Impl::AnyLaneFreeLocked(BackendMask except) const {
  for (size_t i = 0; i < executors_.size(); ++i) {
    if ((except >> i & 1) == 0 && !executors_[i].down && executors_[i].free() > 0) return true;
  }
  return false;
}

// --- Deciding

TimeNs Batcher::Impl::EtaLocked(const Executor& executor, TimeNs now) const {
  if (executor.free() > 0) return now;
  TimeNs eta = kNever;
  for (const Flight* flight : executor.flights) {
    // What is overdue is expected to take as long again as it is overdue: the longer, the less
    // the estimate is trusted.
    const TimeNs left =
        flight->expected_end > now ? flight->expected_end - now : now - flight->expected_end;
    eta = std::min(eta, now + left);
  }
  return eta;
}

bool Batcher::Impl::BothKindsUpLocked() const {
  if (!preference_.has_value()) return false;
  bool up[2] = {false, false};
  for (const Executor& executor : executors_) {
    if (executor.down || !executor.backend->up() || executor.lanes == 0) continue;
    up[static_cast<size_t>(KindOf(executor.executes_inline))] = true;
  }
  return up[0] && up[1];
}

size_t Batcher::Impl::KeepOneKindLocked(TimeNs now, const Job& job) {
  const Kind kind = preference_->Choose(Preference::ClassOf(job.bytes), now);
  TimeNs eta = kNever;
  size_t of_kind = 0, of_other = 0;
  bool other_free = false;
  for (const LaneView& lane : lanes_) {
    if (!lane.up || lane.lanes == 0) continue;
    if (KindOf(lane.executes_inline) == kind) {
      ++of_kind;
      eta = std::min(eta, lane.eta);
    } else {
      ++of_other;
      other_free |= lane.free > 0;
    }
  }
  if (eta > now + kPatienceNs) return of_kind + of_other;
  if (eta > now && other_free) wake_at_ = std::min(wake_at_, now + kPatienceNs);
  for (LaneView& lane : lanes_) lane.up &= KindOf(lane.executes_inline) == kind;
  return of_kind;
}

std::vector<Batcher::Placement> Batcher::Impl::PlacementsLocked() const {
  std::vector<Placement> placements;
  const bool choice = BothKindsUpLocked();
  for (size_t c = 0; c < Preference::kClasses; ++c) {
    Preference::View view;
    if (preference_.has_value()) view = preference_->view(c);
    for (const Executor& executor : executors_) {
      if (executor.down || !executor.backend->up() || executor.lanes == 0) continue;
      if (choice && KindOf(executor.executes_inline) != view.kind) continue;
      placements.push_back({.payload_bytes_max = Preference::BytesMax(c),
                            .backend = executor.backend->info().name,
                            .reason = !choice      ? "only"
                                      : view.tried ? "trial"
                                                   : "estimate",
                            .switches = view.switches});
      break;
    }
  }
  return placements;
}

Decision Batcher::Impl::DecideLocked(TimeNs now, const QueueView& queue, const Job& job,
                                     BackendMask except, bool with_delay) {
  except |= UnfitLocked(job);
  bool kinds[2] = {false, false};
  size_t candidates = 0;
  lanes_.resize(executors_.size());
  for (size_t i = 0; i < executors_.size(); ++i) {
    const Executor& executor = executors_[i];
    LaneView& lane = lanes_[i];
    lane = {.up = !executor.down && (except >> i & 1) == 0 && executor.backend->up(),
            .executes_inline = executor.executes_inline,
            .free = executor.free(),
            .lanes = executor.lanes,
            .lane_bytes = executor.lane_bytes,
            .lane_payloads = executor.lane_payloads,
            .eta = now,
            .batch_cost_ns = 0};
    if (!lane.up || lane.lanes == 0) continue;
    ++candidates;
    kinds[static_cast<size_t>(KindOf(lane.executes_inline))] = true;
  }
  if (candidates > 1) {
    for (size_t i = 0; i < executors_.size(); ++i) {
      if (lanes_[i].up) lanes_[i].eta = EtaLocked(executors_[i], now);
    }
  }
  // A batch that failed on one backend takes what is left.
  if (preference_.has_value() && except == 0 && kinds[0] && kinds[1]) {
    candidates = KeepOneKindLocked(now, job);
  }
  // Only now: a prediction takes as long as all the rest here, under the lock that all loops share.
  if (candidates > 1 || with_delay) {
    for (size_t i = 0; i < executors_.size(); ++i) {
      if (!lanes_[i].up) continue;
      lanes_[i].batch_cost_ns = PredictNs(*executors_[i].backend, queue, limits_);
    }
  }
  Decision decision = Decide(now, queue, lanes_, limits_);
  decision.bytes_max = WholeSamples(decision.bytes_max, job);
  const bool large_counters = CounterCount(job.plan) > kSplitCountersMax;
  const bool on_cpu = decision.backend >= 0 && lanes_[decision.backend].executes_inline;
  if (job.work != nullptr || (large_counters && on_cpu)) {
    decision.parts = 1;
    decision.bytes_max = std::max(decision.bytes_max, job.bytes);
  }
  // A GPU's lanes are waited for, up to kPatienceNs; to know how long takes a prediction.
  if (decision.action == Decision::Action::kDispatch && preference_.has_value()) {
    const Executor& chosen = executors_[decision.backend];
    if (!chosen.executes_inline && decision.cost_ns == 0) {
      decision.cost_ns = PredictNs(*chosen.backend, queue, limits_);
    }
  }
  wake_at_ = std::min(wake_at_, decision.wake_at);
  return decision;
}

void Batcher::Impl::PumpLocked(TimeNs now, Work& work) {
  wake_at_ = kNever;
  if (!retries_.empty()) PumpRetriesLocked(now, work);
  while (!queue_.empty()) {
    const FairQueue::SizeClass first = queue_.Next();
    const auto other = first == FairQueue::kSmall ? FairQueue::kLarge : FairQueue::kSmall;
    if (!DispatchFromLocked(first, now, work) && !DispatchFromLocked(other, now, work)) break;
  }
  if (!queue_.empty() && RefreshLocked(work) == 0) FailQueueLocked(work);
  if (admission_.waits()) AdmitLocked(now, work);
  if (wake_at_ < sleeps_until_) wake_thread_.NotifyOne();
}

bool Batcher::Impl::DispatchFromLocked(FairQueue::SizeClass c, TimeNs now, Work& work) {
  const bool dropped = DropDeadLocked(c, now, work);
  if (queue_.payloads(c) == 0) return dropped;
  Job& front = *queue_.Front(c);
  const BackendMask unfit = UnfitLocked(front);
  if (unfit != 0 && (RefreshLocked(work) & ~unfit) == 0) {
    front.notes_.failure = NoBackendUp();
    return DropDeadLocked(c, now, work);
  }
  if (!AnyLaneFreeLocked(unfit)) return dropped;
  const bool with_delay = limits_.batch_delay_us_max > 0;
  QueueView view{.payloads = queue_.payloads(c),
                 .bytes = queue_.bytes(c),
                 .next_bytes = FairQueue::Left(front),
                 .next_executing = front.notes_.pieces > 1};
  // Without a delay nothing is kept waiting for the time; with one, what waits while a lane is free
  // is less than a batch, so the scan is short.
  if (with_delay && view.bytes < limits_.batch_bytes_max &&
      view.payloads < limits_.batch_payloads_max) {
    const FairQueue::Times times = queue_.Scan(c);
    view.oldest_enqueued_at = times.oldest_enqueued_at;
    view.tightest_deadline = times.tightest_deadline;
  }
  const Decision decision = DecideLocked(now, view, front, 0, with_delay);
  if (decision.action != Decision::Action::kDispatch) return dropped;
  FormLocked(c, decision, now, work);
  return true;
}

Flight* Batcher::Impl::TryInlineLocked(Job* job, TimeNs now) {
  if (job->bytes > limits_.inline_bytes_max || !retries_.empty()) return nullptr;
  if (job->work != nullptr) return nullptr;  // its bytes do not tell how long it takes
  if (job->charge_bytes > job->bytes + kInlineAnswerBytesMax) return nullptr;
  // What waits while a lane of the CPU is free waits for a GPU: to pass it takes nothing from it.
  if (!queue_.empty() && !BothKindsUpLocked()) return nullptr;
  if (DeadLocked(*job, now) || !AnyLaneFreeLocked(UnfitLocked(*job))) return nullptr;
  const QueueView view{.payloads = 1,
                       .bytes = job->bytes,
                       .oldest_enqueued_at = now,
                       .tightest_deadline = job->deadline,
                       .next_bytes = job->bytes};
  const Decision decision = DecideLocked(now, view, *job, 0, limits_.batch_delay_us_max > 0);
  if (decision.action != Decision::Action::kDispatch || decision.parts > 1 ||
      job->bytes > decision.bytes_max || !executors_[decision.backend].executes_inline) {
    return nullptr;
  }
  Flight* flight = NewFlightLocked(decision, ClosedBy::kInline, now);
  job->notes_.started = true;
  ++in_flight_;
  flight->Add({.job = job, .offset = 0, .bytes = job->bytes, .whole = true});
  return flight;
}

// --- Forming

bool Batcher::Impl::DeadLocked(const Job& job, TimeNs now) const {
  return Cancelled(job) || now >= job.deadline;
}

bool Batcher::Impl::DropDeadLocked(FairQueue::SizeClass c, TimeNs now, Work& work) {
  bool any = false;
  while (queue_.payloads(c) > 0) {
    Job* job = queue_.Front(c);
    const bool failed = !job->notes_.failure.ok();
    if (!failed && !DeadLocked(*job, now)) break;
    any = true;
    queue_.Drop(c);
    ++in_flight_;
    const Piece rest{.job = job, .whole = job->notes_.pieces == 0};
    if (failed) {
      EndPieceLocked(rest, job->notes_.failure, work);
    } else {
      DropPieceLocked(rest, work);
    }
  }
  return any;
}

void Batcher::Impl::FormLocked(FairQueue::SizeClass c, const Decision& decision, TimeNs now,
                               Work& work) {
  Job* first = queue_.Front(c);
  const uint64_t left = FairQueue::Left(*first);
  if (decision.parts > 1 || left > decision.bytes_max || first->notes_.pieces > 0) {
    const uint64_t piece_bytes = PieceBytes(left, decision);
    bool gone = false;
    for (uint32_t i = 0; i < decision.parts && !gone; ++i) {
      Flight* flight = NewFlightLocked(decision, decision.closed_by, now);
      gone = TakeLocked(c, first, std::min(piece_bytes, FairQueue::Left(*first)), now, *flight);
      work.submits.push_back(flight);
    }
    return;
  }
  Flight* flight = NewFlightLocked(decision, decision.closed_by, now);
  work.submits.push_back(flight);
  while (true) {
    Job* job = queue_.Front(c);
    TakeLocked(c, job, FairQueue::Left(*job), now, *flight);
    if (flight->pieces.size() >= decision.payloads_max) return;
    DropDeadLocked(c, now, work);
    if (queue_.payloads(c) == 0) return;
    const Job& next = *queue_.Front(c);
    const uint64_t next_left = FairQueue::Left(next);
    if (next_left > decision.fill_bytes_max - std::min(flight->bytes, decision.fill_bytes_max)) {
      return;
    }
    // What may be cut over lanes, or was, travels alone.
    if (next_left >= limits_.split_bytes_min || next.notes_.pieces > 0) return;
    const Job& first_job = *flight->pieces.front().job;
    if (first_job.work != nullptr || next.work != nullptr) return;
    if (!MayShareBatch(first_job.plan, next.plan)) return;
  }
}

bool Batcher::Impl::TakeLocked(FairQueue::SizeClass c, Job* job, uint64_t bytes, TimeNs now,
                               Flight& flight) {
  Job::Notes& notes = job->notes_;
  if (!notes.started) {
    notes.started = true;
    job->queue_ns = static_cast<uint64_t>(std::max<TimeNs>(0, now - job->enqueued_at));
  }
  const bool whole = notes.dispatched == 0 && bytes == job->bytes;
  const uint64_t offset = notes.dispatched;
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

// --- Taking back

void Batcher::Impl::ReturnedLocked(Flight* flight, TimeNs now, Work& work) {
  if (flight->state == Flight::State::kCondemned) {
    flight->returned = true;  // the watchdog is at it and will see to the rest
    return;
  }
  const bool late = flight->state == Flight::State::kQuarantined;
  LandLocked(flight);
  flight->state = Flight::State::kDelivering;
  work.released.insert(work.released.end(), flight->owners.begin(), flight->owners.end());
  flight->owners.clear();
  if (flight->batcher != nullptr) work.released.push_back(std::move(flight->batcher));

  const absl::Status& status = flight->batch->status;
  if (status.ok() && !flight->pieces.empty()) {
    if (!late) LearnLocked(*flight, now);
    in_flight_ -= flight->wholes;
    accepted_ -= flight->wholes;
    for (const Piece& piece : flight->pieces) {
      if (piece.whole) {
        admission_.Discharge(piece.job);
        continue;
      }
      flight->AddUp(piece);
      piece.job->report = flight->batch->report;
      EndPieceLocked(piece, absl::OkStatus(), work);
    }
    work.delivered.push_back(flight);
  } else {
    if (!flight->pieces.empty()) {
      const bool down = (RefreshLocked(work) >> flight->backend & 1) == 0;
      const std::string_view reason = late                                ? kWatchdog
                                      : down                              ? kDeviceLost
                                      : absl::IsResourceExhausted(status) ? kOutOfMemory
                                                                          : kError;
      RetryLocked(*flight, flight->pieces, reason, status.message(), now, work);
    }
    RecycleLocked(flight);
  }
  PumpLocked(now, work);
}

void Batcher::Impl::LearnLocked(const Flight& flight, TimeNs now) {
  constexpr double kKeep = 7.0 / 8;
  Executor& executor = executors_[flight.backend];
  const auto took_ns = static_cast<uint64_t>(std::max<TimeNs>(1, now - flight.formed_at));
  executor.recent_bytes =
      executor.recent_bytes * kKeep + static_cast<double>(std::max(flight.bytes, flight.charge));
  executor.recent_ns = executor.recent_ns * kKeep + static_cast<double>(took_ns);
  if (!preference_.has_value()) return;
  for (const Piece& piece : flight.pieces) {
    if (UnfitLocked(*piece.job) != 0) continue;  // of which there is no choice
    const uint64_t payload_bytes = piece.whole ? piece.bytes : piece.job->bytes;
    preference_->Counted(Preference::ClassOf(payload_bytes), piece.bytes, now);
  }
}

void Batcher::Impl::EndPieceLocked(const Piece& piece, const absl::Status& status, Work& work) {
  if (piece.whole) {
    FinishLocked(piece.job, status, work);
    return;
  }
  Job::Notes& notes = piece.job->notes_;
  // The pieces that lanes have are waited for; what is still in the queue will be dropped there.
  if (!status.ok() && notes.failure.ok()) notes.failure = status;
  if (--notes.pieces == 0) FinishLocked(piece.job, std::move(notes.failure), work);
}

void Batcher::Impl::DropPieceLocked(const Piece& piece, Work& work) {
  const bool first = piece.whole || piece.job->notes_.failure.ok();
  if (Cancelled(*piece.job)) {
    if (first) ++work.cancelled;
    EndPieceLocked(piece, absl::CancelledError("the request was cancelled"), work);
  } else {
    if (first) ++work.expired;
    EndPieceLocked(piece, absl::DeadlineExceededError("the deadline passed in the queue"), work);
  }
}

void Batcher::Impl::FinishLocked(Job* job, absl::Status status, Work& work) {
  admission_.Discharge(job);
  --in_flight_;
  --accepted_;
  work.finished.push_back({.job = job, .status = std::move(status)});
}

void Batcher::Impl::AdmitLocked(TimeNs now, Work& work) {
  if (admitting_) return;
  const auto dead = [&](const Job& job) { return DeadLocked(job, now); };
  while (Job* const job = admission_.Next(dead)) {
    admission_.Charge(job);
    if (dead(*job)) {
      --waiting_count_;
      ++in_flight_;
      DropPieceLocked({.job = job}, work);  // and with it the charge
    } else {
      work.admitted.push_back(job);
    }
  }
  admitting_ = !work.admitted.empty();
}

}  // namespace histogram::server
