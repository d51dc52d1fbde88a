#include "server/request/total.h"

#include <cstddef>
#include <utility>

#include "kernels/payload.h"
#include "server/request/phased_count.h"

namespace histogram::server {
namespace {

// Backend and kernel are those of the last chunk; times are sums over all of them.
void AddToReceipt(const Job& chunk, Receipt& receipt) {
  BatchReport sum = chunk.report;
  sum.gather_ns += receipt.batch.gather_ns;
  sum.transfer_ns += receipt.batch.transfer_ns;
  sum.kernel_ns += receipt.batch.kernel_ns;
  receipt.batch = std::move(sum);
  receipt.queue_ns += chunk.queue_ns;
}

std::vector<Tally> NoSamples(const Query& query) {
  const uint32_t channels = query.rows.has_value() ? query.rows->channels : 1;
  return std::vector<Tally>(channels, Tally(query.plan->Now(), query.statistics));
}

}  // namespace

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
  AddToReceipt(chunk, receipt_);
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
