#include "server/request/call.h"

#include <histogram/sample_statistics.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/plan_data.h"
#include "kernels/reference.h"
#include "kernels/typed_payload.h"

namespace histogram::server {

namespace {

absl::Status CheckSum(const Answer& answer, uint64_t samples) {
  const Histogram& h = answer.histogram;
  const absl::Span<const uint64_t> counts = answer.counts();
  const uint64_t counted = std::reduce(counts.begin(), counts.end(), uint64_t{0}) + h.below +
                           h.above + h.ignored + h.nan;
  if (counted == samples) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal,
                   absl::StrCat("the counts add up to ", counted, " samples, but ", samples,
                                " were sent; the answer is withheld"),
                   {.reason = "COUNT_MISMATCH", .limit = samples});
}

void SetEdges(const Query& query, Answer& answer) {
  answer.edges.clear();
  if (query.edges) answer.edges = query.binning.ComputeEdges();
}

}  // namespace

absl::Status MakeAnswer(const Query& query, const ValueCounts& values, uint64_t samples,
                        Answer& answer) {
  Histogram& h = answer.histogram;
  if (query.binning.is_identity()) {  // the most frequent question by far: no folding, no copy
    answer.in_place = values;
    h.counts.clear();
    h.below = h.above = h.ignored = 0;
  } else {
    answer.in_place = {};
    FoldInto(values, query.binning, h);
  }
  h.nan = 0;
  if (absl::Status s = CheckSum(answer, samples); !s.ok()) return s;
  h.samples = samples;
  answer.statistics.reset();
  if (query.statistics) {
    answer.statistics = ComputeStatistics(values, query.binning, query.quantiles);
  }
  SetEdges(query, answer);
  return absl::OkStatus();
}

absl::Status MakeTypedAnswer(const Query& query, absl::Span<const uint64_t> slots, uint64_t samples,
                             Answer& answer) {
  const uint32_t bins = query.binning.bin_count();
  Histogram& h = answer.histogram;
  h.counts.clear();
  answer.in_place = slots.first(bins);
  if (query.statistics) {
    h.counts.assign(answer.in_place.begin(), answer.in_place.end());
    answer.in_place = {};
  }
  h.below = slots[bins + internal::kBelowSlot];
  h.above = slots[bins + internal::kAboveSlot];
  h.nan = slots[bins + internal::kNanSlot];
  h.ignored = 0;
  if (absl::Status s = CheckSum(answer, samples); !s.ok()) return s;
  h.samples = samples;
  answer.statistics.reset();
  SetEdges(query, answer);
  return absl::OkStatus();
}

void MakeRowsAnswer(const Query& query, const RowColumns& rows, uint64_t samples, Answer& answer) {
  answer.rows = &rows;
  answer.histogram = {};
  answer.histogram.samples = samples;
  answer.in_place = {};
  answer.statistics.reset();
  SetEdges(query, answer);
}

std::span<const std::byte> InOnePiece(absl::Span<const Fragment> payload, std::string& storage) {
  if (payload.size() == 1) return std::as_bytes(payload.front());
  for (const Fragment& fragment : payload) {
    storage.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
  return std::as_bytes(std::span(storage.data(), storage.size()));
}

void SelectStatistics(const Query& query, Statistics& statistics) {
  for (const auto& [answer, value] : kStatisticFields) {
    if (!query.wants(answer)) (statistics.*value).reset();
  }
}

void MakeSparse(Answer& answer) {
  const absl::Span<const uint64_t> all = answer.counts();
  std::vector<uint64_t> counts;
  answer.bins.clear();
  for (size_t bin = 0; bin < all.size(); ++bin) {
    if (all[bin] == 0) continue;
    answer.bins.push_back(static_cast<uint32_t>(bin));
    counts.push_back(all[bin]);
  }
  answer.histogram.counts = std::move(counts);
  answer.in_place = {};
}

void AddTypedStatistics(const Query& query, absl::Span<const Fragment> payload, Answer& answer) {
  const Plan plan = query.plan->Now();
  if (query.needs_order()) {
    std::string storage;
    answer.statistics =
        ComputeStatistics(InOnePiece(payload, storage), plan, answer.histogram, query.quantiles);
    return;
  }
  SampleStatistics seen(plan);
  AddPayloadTo(seen, SampleBytes(query.sample_type), payload);
  answer.statistics = seen.Finish(answer.histogram, query.quantiles);
}

namespace {

absl::Status Compare(const char* what, absl::Span<const uint64_t> recount,
                     absl::Span<const uint64_t> counts) {
  for (size_t i = 0; i < recount.size(); ++i) {
    if (recount[i] == counts[i]) continue;
    return MakeError(
        absl::StatusCode::kInternal,
        absl::StrCat(what, " ", i, " was counted ", counts[i], " times, a second kernel counted ",
                     recount[i], "; the answer is withheld"),
        {.reason = "COUNT_MISMATCH", .limit = recount[i]});
  }
  return absl::OkStatus();
}

}  // namespace

bool Verifier::Picks() {
  if (fraction_ == 0) return false;
  // Spreads sequence numbers over all 64-bit numbers (Weyl sequence of the golden ratio), so that
  // every run of 1/fraction payloads holds about one that is picked.
  const uint64_t spread =
      (sequence_.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<double>(spread) <= fraction_ * 0x1p64;
}

absl::Status Verifier::Check(const Query& query, const Job& job) {
  if (!Picks()) return absl::OkStatus();
  // Plain loops: they share no code with any kernel that a lane runs.
  if (query.plan != nullptr) {
    return Compare("slot", ReferenceSlots(job.fragments, query.binning, query.sample_type),
                   job.slots);
  }
  ValueCounts recount{};
  for (const Fragment& fragment : job.fragments) {
    for (const uint8_t value : fragment) ++recount[value];
  }
  return Compare("value", recount, job.counts);
}

}  // namespace histogram::server
