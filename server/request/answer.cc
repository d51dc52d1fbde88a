#include "server/request/answer.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/error.h"
#include "kernels/payload.h"
#include "kernels/reference.h"
#include "server/request/phased_count.h"

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

// The answer with rows, which outlive it.
void MakeRowsAnswer(const Query& query, const v1::RowAnswers& rows, uint64_t samples,
                    Answer& answer) {
  Begin(query, &rows, answer);
  answer.histogram = {};
  answer.histogram.samples = samples;
}

absl::Status MakeJobsAnswer(const Query& query, const Job& job, Answer& answer) {
  const uint64_t samples = job.bytes / SampleBytes(query.sample_type);
  const auto* const phases = static_cast<const PhasedCount*>(job.phases.get());
  if (phases != nullptr && !phases->status().ok()) return phases->status();
  if (query.rows.has_value()) {
    MakeRowsAnswer(phases->query(), phases->rows(), samples, answer);
    return absl::OkStatus();
  }
  const Query& its = phases != nullptr ? phases->query() : query;
  const Plan& plan = phases != nullptr ? phases->plan() : job.plan;
  const absl::Span<const uint64_t> counters = phases != nullptr ? phases->counters() : job.counters;
  const auto statistics_of = [&](const Histogram& histogram) {
    return StatisticsOfPayload(plan, job.fragments, counters, histogram, its.needs_order(),
                               its.quantiles);
  };
  return MakeAnswer(its, plan, counters, samples, statistics_of, answer);
}

std::vector<Tally> NoSamples(const Query& query) {
  const uint32_t channels = query.rows.has_value() ? query.rows->channels : 1;
  return std::vector<Tally>(channels, Tally(query.plan->Now(), query.statistics));
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

absl::Status Verifier::Check(const Job& job) {
  if (fraction_ == 0) return absl::OkStatus();
  // Spreads sequence numbers over all 64-bit numbers (Weyl sequence of the golden ratio), so that
  // every run of 1/fraction payloads holds about one that is picked.
  const uint64_t spread =
      (sequence_.fetch_add(1, std::memory_order_relaxed) + 1) * 0x9E3779B97F4A7C15u;
  if (static_cast<double>(spread) > fraction_ * 0x1p64) return absl::OkStatus();
  if (job.phases != nullptr) {
    return static_cast<const PhasedCount&>(*job.phases).Recount(job.fragments);
  }
  // Plain loops: they share no code with any kernel that a lane runs.
  const std::vector<uint64_t> recount = ReferenceCounters(job.fragments, job.plan);
  for (size_t i = 0; i < recount.size(); ++i) {
    if (recount[i] == job.counters[i]) continue;
    return MakeError(absl::StatusCode::kInternal,
                     absl::StrCat("counter ", i, " is ", job.counters[i], ", plain loops counted ",
                                  recount[i], "; the answer is withheld"),
                     {.reason = "COUNT_MISMATCH", .limit = recount[i]});
  }
  return absl::OkStatus();
}

absl::Status Recount(Verifier& verifier, Observer& observer, const Job& job) {
  absl::Status status = verifier.Check(job);
  if (!status.ok()) observer.IntegrityFailure();
  return status;
}

absl::Status FinishAnswer(Verifier& verifier, Clock& clock, Observer& observer, const Query& query,
                          const Job& job, Answer& answer, TimeNs& finished_at) {
  const TimeNs begin = clock.Now();
  absl::Status status = MakeJobsAnswer(query, job, answer);
  // Any other is a refusal: the payload does not have the range that it is to give.
  if (absl::IsInternal(status)) observer.IntegrityFailure();
  if (status.ok()) status = Recount(verifier, observer, job);
  if (!status.ok()) return status;
  answer.receipt.batch = job.report;
  answer.receipt.queue_ns = job.queue_ns;
  finished_at = clock.Now();
  observer.StageFinished(Stage::kFold, job.report.backend,
                         static_cast<uint64_t>(finished_at - begin));
  return absl::OkStatus();
}

std::vector<Tally> TakeTallies(const Query& query, Job& chunk) {
  auto* const phases = static_cast<PhasedCount*>(chunk.phases.get());
  if (query.rows.has_value()) return phases->TakeChannels();
  std::vector<Tally> tallies;
  tallies.emplace_back(phases != nullptr ? phases->plan() : chunk.plan, query.statistics,
                       phases != nullptr ? phases->TakeCounters() : std::move(chunk.counters),
                       chunk.bytes / SampleBytes(query.sample_type));
  if (query.statistics) See(chunk.fragments, tallies[0]);
  return tallies;
}

void Total::Add(const Query& query, const Job& chunk, const std::vector<Tally>& tallies) {
  if (tallies_.empty()) tallies_ = NoSamples(query);
  for (size_t c = 0; c < tallies_.size(); ++c) tallies_[c].Merge(tallies[c]);
  bytes_ += chunk.bytes;
  ++chunks_;
  // Backend and kernel are those of the last chunk; times are sums over all of them.
  BatchReport sum = chunk.report;
  sum.gather_ns += receipt_.batch.gather_ns;
  sum.transfer_ns += receipt_.batch.transfer_ns;
  sum.kernel_ns += receipt_.batch.kernel_ns;
  receipt_.batch = std::move(sum);
  receipt_.queue_ns += chunk.queue_ns;
}

absl::Status Total::Finish(const Query& query, Answer& answer) {
  if (tallies_.empty()) tallies_ = NoSamples(query);
  const uint64_t samples = bytes_ / SampleBytes(query.sample_type);
  answer.receipt = receipt_;
  if (query.rows.has_value()) {
    rows_.Clear();
    MakeRowsAnswer(query, rows_, samples, answer);
    for (const Tally& tally : tallies_) {
      if (absl::Status s = AppendRow(query, tally, rows_); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  const Tally& tally = tallies_[0];
  const auto statistics_of = [&](const Histogram& histogram) {
    return tally.FinishStatistics(histogram, query.quantiles);
  };
  return MakeAnswer(query, tally.plan(), tally.counters(), samples, statistics_of, answer);
}

}  // namespace histogram::server
