#include "server/request/answer.h"

#include <histogram/tally.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"

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
void Begin(const Query& query, const RowColumns* rows, Answer& answer) {
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

void MakeRowsAnswer(const Query& query, const RowColumns& rows, uint64_t samples, Answer& answer) {
  Begin(query, &rows, answer);
  answer.histogram = {};
  answer.histogram.samples = samples;
}

}  // namespace histogram::server
