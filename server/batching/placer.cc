#include "server/batching/placer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>

#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

// A queue takes the other kind of backend once the preferred one has begun nothing for this long:
// its lanes hang, or the host stands still. Not measured apart.
constexpr TimeNs kPatienceNs = 20'000'000;

// Most payloads of a batch under this plan.
uint32_t PayloadsMax(const BackendInfo& info, const Plan& plan) {
  if (plan.counts_values()) return info.lane_payloads;
  return static_cast<uint32_t>(
      std::min<uint64_t>(info.lane_payloads, info.lane_counters / plan.counter_count()));
}

// What stands for all typed samples where the kinds are first compared.
constexpr Workload kUsualSamples = {.sample_bytes = sizeof(float), .bin_count = 2048};

// Prefers the kind that is predicted to count a lone payload from the middle of a size class
// sooner. None where only one kind of backend is there.
std::optional<Preference> Estimate(const std::vector<Backend*>& backends,
                                   const BatchingLimits& limits) {
  std::array<BackendKind, Preference::kClasses> estimated{};
  for (size_t c = 0; c < Preference::kClasses; ++c) {
    const uint64_t bytes = Preference::BytesMax(c) / 2;
    Workload lone = Preference::IsTyped(c) ? kUsualSamples : Workload();
    lone.payload_count = 1;
    std::array<uint64_t, kBackendKinds> least = {kNever, kNever};
    for (const Backend* backend : backends) {
      const BackendInfo& info = backend->info();
      lone.payload_bytes = lone.batch_bytes =
          std::min({bytes, limits.batch_bytes_max, info.lane_bytes});
      uint64_t& ns = least[static_cast<size_t>(info.kind)];
      ns = std::min({ns, backend->EstimateNs(lone), uint64_t{kNever / 4}});
    }
    if (std::max(least[0], least[1]) == kNever) return std::nullopt;
    estimated[c] = least[0] <= least[1] ? BackendKind::kCpu : BackendKind::kGpu;
  }
  return Preference(estimated);
}

// No sample is cut in two.
uint64_t WholeSamples(uint64_t bytes, const Job& job) {
  const uint64_t size = SampleBytes(job.plan.type());
  return std::max(size, bytes - bytes % size);
}

constexpr uint64_t kPartsPerSplitMin = 4;
// A lane's share of the queue is not made smaller than this: a batch should be worth its hand-over.
// Not measured apart.
constexpr uint64_t kFillBytesMin = 256 << 10;
constexpr uint32_t kFillPayloadsMin = 64;

// Lanes of this backend that the queue may take now.
uint32_t FreeFor(const QueueView& queue, const BackendView& backend) {
  const bool leave_one = queue.next_executing && queue.payloads == 1 && backend.lanes > 1;
  return backend.free - ((leave_one && backend.free > 0) ? 1 : 0);
}

uint64_t PartBytesMin(const BatchingLimits& limits) {
  return std::max<uint64_t>(1, limits.split_bytes_min / kPartsPerSplitMin);
}

// Over how many lanes the first payload is cut.
uint32_t Parts(uint64_t bytes, const BackendView& backend, uint32_t free,
               const BatchingLimits& limits) {
  if (bytes < limits.split_bytes_min) return 1;
  // Of the lanes that are free one is left to others (`free` may be without it already).
  const uint32_t over = backend.lanes > 1 ? std::min(free, backend.free - 1) : free;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / PartBytesMin(limits), 1, std::max<uint32_t>(1, over)));
}

// The most that one lane takes of a payload that is cut: its share of what is left, as if all lanes
// but one were free, since those that are busy soon are (guided self-scheduling: Polychronopoulos
// and Kuck, 1987). A GPU's lanes share one link, which a cut makes no faster.
uint64_t PieceBytesMax(const QueueView& queue, const BackendView& backend,
                       const BatchingLimits& limits) {
  const bool cut = queue.next_executing || queue.next_bytes >= limits.split_bytes_min;
  if (!cut || backend.kind == BackendKind::kGpu || backend.lanes < 2)
    return std::numeric_limits<uint64_t>::max();
  return std::max(PartBytesMin(limits), queue.next_bytes / (backend.lanes - 1));
}

}  // namespace

Decision Decide(const QueueView& queue, absl::Span<const BackendView> backends,
                const BatchingLimits& limits) {
  if (queue.payloads == 0) return {};
  const BackendView* best = nullptr;
  for (const BackendView& each : backends) {
    if (!each.up || FreeFor(queue, each) == 0) continue;
    // A GPU's lanes share its link: a batch that is alone there comes back sooner.
    if (best == nullptr || (each.kind == best->kind && each.free > best->free)) best = &each;
  }
  if (best == nullptr) return {};
  const BackendView& backend = *best;

  Decision decision;
  const uint64_t bytes_max =
      std::max<uint64_t>(1, std::min(limits.batch_bytes_max, backend.lane_bytes));
  const uint32_t payloads_max =
      std::max<uint32_t>(1, std::min(limits.batch_payloads_max, backend.lane_payloads));
  if (queue.bytes >= bytes_max) {
    decision.closed_by = ClosedBy::kBytes;
  } else if (queue.payloads >= payloads_max) {
    decision.closed_by = ClosedBy::kPayloads;
  }
  decision.backend = static_cast<int>(best - backends.data());
  decision.fill_bytes_max =
      std::min(bytes_max, std::max(kFillBytesMin, queue.bytes / backend.lanes));
  decision.payloads_max =
      std::min(payloads_max, std::max(kFillPayloadsMin, queue.payloads / backend.lanes));
  decision.parts = Parts(queue.next_bytes, backend, FreeFor(queue, backend), limits);
  decision.bytes_max = std::min(bytes_max, PieceBytesMax(queue, backend, limits));
  return decision;
}

Placer::Placer(const BatchingLimits& limits, const std::vector<Backend*>& backends)
    : limits_(limits), preference_(Estimate(backends, limits)) {
  assert(backends.size() <= kBackendsMax);
  for (Backend* backend : backends) {
    if (backend->info().kind == BackendKind::kCpu) cpu_ = size();
    Lanes& lanes = backends_.emplace_back();
    lanes.backend = backend;
    lanes.info = &backend->info();
    lanes.flights.reserve(backend->info().lanes);
  }
}

// --- The lanes

BackendMask Placer::Refresh(Outbox& outbox) {
  BackendMask up = 0;
  for (int b = 0; b < size(); ++b) {
    if (backends_[b].down) continue;
    if (backends_[b].backend->up()) {
      up |= BackendMask{info(b).lanes > 0} << b;
    } else {
      MarkDown(b, kDeviceLost, outbox);
    }
  }
  return up;
}

void Placer::MarkDown(int b, std::string_view reason, Outbox& outbox) {
  if (std::exchange(backends_[b].down, true)) return;
  outbox.downs.push_back({.backend = b, .reason = reason});
}

bool Placer::AnyFree(BackendMask except) const {
  for (int b = 0; b < size(); ++b) {
    if ((except >> b & 1) == 0 && free(b) > 0 && usable(b)) return true;
  }
  return false;
}

Flight* Placer::Take(int b, ClosedBy closed_by, TimeNs now) {
  assert(free(b) > 0);
  if (idle_.empty()) idle_.push_back(pool_.emplace_back(std::make_unique<Flight>()).get());
  Flight* const flight = idle_.back();
  idle_.pop_back();
  flight->backend = b;
  flight->closed_by = closed_by;
  backends_[b].taken_at = now;
  backends_[b].flights.push_back(flight);
  return flight;
}

void Placer::Return(Flight* flight) { std::erase(backends_[flight->backend].flights, flight); }

void Placer::Recycle(Flight* flight) {
  flight->Reset();
  idle_.push_back(flight);
}

uint32_t Placer::lanes() const {
  uint32_t lanes = 0;
  for (const Lanes& each : backends_) lanes += each.down ? 0 : each.info->lanes;
  return lanes;
}

// --- Where the next batch goes

BackendMask Placer::CannotCount(const Job& job) const {
  if (job.phases == nullptr && job.plan.counts_values()) return 0;
  const uint64_t counters = job.plan.counter_count();
  const PhaseLimits needs = job.phases != nullptr ? job.phases->needs() : PhaseLimits();
  BackendMask mask = 0;
  for (int b = 0; b < size(); ++b) {
    if (counters > info(b).lane_counters || !info(b).phases.Cover(needs)) {
      mask |= BackendMask{1} << b;
    }
  }
  return mask;
}

bool Placer::MayShareBatch(int backend, const Job& a, const Job& b) const {
  if (a.phases != nullptr || b.phases != nullptr) return false;
  if (!histogram::MayShareBatch(a.plan, b.plan)) return false;
  const bool on_cpu = info(backend).kind == BackendKind::kCpu;
  return on_cpu || HaveSameBins(a.plan, b.plan);
}

bool Placer::BothKindsUp() const {
  if (!preference_.has_value()) return false;
  bool up[kBackendKinds] = {};
  for (int b = 0; b < size(); ++b) {
    up[static_cast<size_t>(info(b).kind)] |= usable(b);
  }
  return up[0] && up[1];
}

BackendKind Placer::Prefer(const Job& job, TimeNs now) {
  // Of phases the CPU reads the payload in place.
  if (job.phases != nullptr || CannotCount(job) != 0 || !BothKindsUp()) return BackendKind::kCpu;
  return preference_->Choose(Preference::ClassOf(job.bytes, !job.plan.counts_values()), now);
}

InlineGate::Classes Placer::CpuClasses() const {
  if (cpu_ < 0 || !usable(cpu_) || free(cpu_) == 0) return 0;
  if (!BothKindsUp()) return InlineGate::kAll;
  InlineGate::Classes classes = 0;
  for (size_t c = 0; c < Preference::kClasses; ++c) {
    if (preference_->kind(c) == BackendKind::kCpu) classes |= InlineGate::Classes{1} << c;
  }
  return classes;
}

void Placer::Learn(const InlineGate::Collected& collected, TimeNs now) {
  for (size_t c = 0; c < collected.counted.size(); ++c) {
    const auto& [bytes, payloads] = collected.counted[c];
    if (payloads > 0) preference_->Counted(c, bytes, payloads, collected.since, now);
  }
}

void Placer::KeepOneKind(TimeNs now, const Job& job, TimeNs& wake_at) {
  const BackendKind kind = job.notes_.kind;
  bool any_free[kBackendKinds] = {};
  TimeNs taken_at = 0;  // the last lane of that kind
  for (int b = 0; b < size(); ++b) {
    const BackendView& view = views_[b];
    if (!view.up) continue;
    any_free[static_cast<size_t>(view.kind)] |= view.free > 0;
    if (view.kind == kind) taken_at = std::max(taken_at, backends_[b].taken_at);
  }
  const TimeNs patient_until = taken_at + kPatienceNs;
  if (!any_free[static_cast<size_t>(kind)]) {
    if (now >= patient_until) return;
    if (any_free[0] || any_free[1]) wake_at = patient_until;
  }
  for (BackendView& view : views_) view.up &= view.kind == kind;
}

Decision Placer::Decide(TimeNs now, const QueueView& queue, const Job& job, BackendMask except) {
  except |= CannotCount(job);
  bool kinds[kBackendKinds] = {};
  views_.resize(static_cast<size_t>(size()));
  for (int b = 0; b < size(); ++b) {
    views_[b] = {.up = (except >> b & 1) == 0 && usable(b),
                 .kind = info(b).kind,
                 .free = free(b),
                 .lanes = info(b).lanes,
                 .lane_bytes = info(b).lane_bytes,
                 .lane_payloads = PayloadsMax(info(b), job.plan)};
    kinds[static_cast<size_t>(info(b).kind)] |= views_[b].up;
  }
  // A batch that failed on one backend takes what is left.
  TimeNs wake_at = kNever;
  if (preference_.has_value() && except == 0 && kinds[0] && kinds[1]) {
    KeepOneKind(now, job, wake_at);
  }
  Decision decision = server::Decide(queue, views_, limits_);
  decision.wake_at = wake_at;
  decision.bytes_max = WholeSamples(decision.bytes_max, job);
  const bool large_counters = job.plan.counter_count() > kSplitCountersMax;
  const bool on_cpu = decision.backend >= 0 && views_[decision.backend].kind == BackendKind::kCpu;
  if (job.phases != nullptr || (large_counters && on_cpu)) {
    decision.parts = 1;
    decision.bytes_max = std::max(decision.bytes_max, job.bytes);
  }
  return decision;
}

void Placer::Learn(const Flight& flight, TimeNs now) {
  if (!preference_.has_value()) return;
  for (const Piece& piece : flight.pieces) {
    // There is no choice of kind for it.
    if (piece.job->phases != nullptr || CannotCount(*piece.job) != 0) continue;
    const uint64_t payload_bytes = piece.whole ? piece.bytes : piece.job->bytes;
    const size_t size_class = Preference::ClassOf(payload_bytes, !piece.job->plan.counts_values());
    preference_->Counted(size_class, piece.bytes, now);
  }
}

std::vector<Placement> Placer::placements() const {
  std::vector<Placement> placements;
  const bool choice = BothKindsUp();
  for (size_t c = 0; c < Preference::kClasses; ++c) {
    Preference::View view;
    if (preference_.has_value()) view = preference_->view(c);
    for (int b = 0; b < size(); ++b) {
      if (!usable(b) || (choice && info(b).kind != view.kind)) continue;
      placements.push_back({.payload_bytes_max = Preference::BytesMax(c),
                            .backend = info(b).name,
                            .reason = !choice      ? "only"
                                      : view.tried ? "trial"
                                                   : "estimate",
                            .switches = view.switches,
                            .typed = Preference::IsTyped(c)});
      break;
    }
  }
  return placements;
}

}  // namespace histogram::server
