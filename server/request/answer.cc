#include "server/request/answer.h"

#include <histogram/tally.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/reference.h"

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

// Forgets the answer of before. `rows`: of the new one; null without rows.
void Begin(const Query& query, const v1::RowAnswers* rows, Answer& answer) {
  answer.in_place = {};
  answer.rows = rows;
  answer.bins.clear();
  answer.statistics.reset();
  answer.edges.clear();
  if (query.edges) answer.edges = query.binning.ComputeEdges();
}

// Removes the counts of empty bins, and sets answer.bins.
void MakeSparse(Answer& answer) {
  const absl::Span<const uint64_t> all = answer.counts();
  std::vector<uint64_t> counts;
  for (size_t bin = 0; bin < all.size(); ++bin) {
    if (all[bin] == 0) continue;
    answer.bins.push_back(static_cast<uint32_t>(bin));
    counts.push_back(all[bin]);
  }
  answer.histogram.counts = std::move(counts);
  answer.in_place = {};
}

}  // namespace

absl::Status MakeAnswer(const Query& query, const Plan& plan, absl::Span<const uint64_t> counters,
                        uint64_t samples, StatisticsOf statistics_of, Answer& answer) {
  Begin(query, nullptr, answer);
  Histogram& h = answer.histogram;
  internal::FoldCounters(plan, counters, h);
  if (plan.counts_bins()) {  // the most frequent question by far: no folding, no copy
    answer.in_place = counters.first(plan.bin_count());
    if (query.statistics) {
      h.counts.assign(answer.in_place.begin(), answer.in_place.end());
      answer.in_place = {};
    }
  }
  if (absl::Status s = CheckSum(answer, samples); !s.ok()) return s;
  h.samples = samples;
  if (query.statistics) {
    answer.statistics = statistics_of(h);
    for (const auto& [wanted, value] : kStatisticFields) {
      if (!query.wants(wanted)) ((*answer.statistics).*value).reset();
    }
  }
  if (query.sparse) MakeSparse(answer);
  return absl::OkStatus();
}

void MakeRowsAnswer(const Query& query, const v1::RowAnswers& rows, uint64_t samples,
                    Answer& answer) {
  Begin(query, &rows, answer);
  answer.histogram = {};
  answer.histogram.samples = samples;
}

bool Verifier::Picks() {
  if (fraction_ == 0) return false;
  // Spreads sequence numbers over all 64-bit numbers (Weyl sequence of the golden ratio), so that
  // every run of 1/fraction payloads holds about one that is picked.
  const uint64_t spread =
      (sequence_.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<double>(spread) <= fraction_ * 0x1p64;
}

absl::Status Verifier::Check(const Job& job) {
  if (!Picks()) return absl::OkStatus();
  // Plain loops: they share no code with any kernel that a lane runs.
  const std::vector<uint64_t> recount = ReferenceCounters(job.fragments, job.plan);
  for (size_t i = 0; i < recount.size(); ++i) {
    if (recount[i] == job.counters[i]) continue;
    return MakeError(
        absl::StatusCode::kInternal,
        absl::StrCat("counter ", i, " is ", job.counters[i], ", a second kernel counted ",
                     recount[i], "; the answer is withheld"),
        {.reason = "COUNT_MISMATCH", .limit = recount[i]});
  }
  return absl::OkStatus();
}

}  // namespace histogram::server
