#include <histogram/tally.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "kernels/payload.h"
#include "kernels/plan_data.h"

namespace histogram {

namespace internal {

void FoldCounters(const Plan& plan, std::span<const uint64_t> counters, Histogram& out) {
  assert(counters.size() == plan.counter_count());
  out.nan = 0;
  if (!plan.counts_bins()) {
    FoldInto(counters.first<kByteValues>(), plan.binning(), out);
    return;
  }
  out.counts.clear();
  out.below = out.above = out.ignored = 0;
  if (plan.counts_values()) return;
  const uint64_t* const outside = counters.data() + plan.bin_count();
  out.below = outside[kBelowSlot];
  out.above = outside[kAboveSlot];
  out.nan = outside[kNanSlot];
}

}  // namespace internal

Tally::Tally(const Plan& plan, bool statistics)
    : Tally(plan, statistics, std::vector<uint64_t>(plan.counter_count()), 0) {}

Tally::Tally(const Plan& plan, bool statistics, std::vector<uint64_t> counters, uint64_t samples)
    : plan_(plan), samples_(samples), counters_(std::move(counters)) {
  assert(counters_.size() == plan.counter_count());
  if (statistics && !plan.counts_values()) seen_.emplace(plan);
}

void Tally::Add(std::span<const std::byte> samples, uint32_t threads) {
  assert(samples.size() % SampleBytes(plan_.type()) == 0);
  AddPayload(plan_, samples, threads, counters_);
  samples_ += samples.size() / SampleBytes(plan_.type());
  See(samples);
}

void Tally::Merge(const Tally& more) {
  Absorb(more.counters_, more.samples_);
  if (seen_.has_value()) seen_->Merge(*more.seen_);
}

void Tally::Absorb(std::span<const uint64_t> counters, uint64_t samples) {
  assert(counters.size() == counters_.size());
  for (size_t i = 0; i < counters_.size(); ++i) counters_[i] += counters[i];
  samples_ += samples;
}

void Tally::See(std::span<const std::byte> samples) {
  if (seen_.has_value()) seen_->Add(samples);
}

void Tally::Clear() {
  samples_ = 0;
  std::fill(counters_.begin(), counters_.end(), 0);
  if (seen_.has_value()) seen_.emplace(plan_);
}

Histogram Tally::Finish() const {
  Histogram histogram;
  internal::FoldCounters(plan_, counters_, histogram);
  if (plan_.counts_bins()) {
    histogram.counts.assign(counters_.begin(), counters_.begin() + plan_.bin_count());
  }
  histogram.samples = samples_;
  return histogram;
}

Statistics Tally::FinishStatistics(std::span<const double> quantiles) const {
  return FinishStatistics(Finish(), quantiles);
}

Statistics Tally::FinishStatistics(const Histogram& histogram,
                                   std::span<const double> quantiles) const {
  assert(seen_.has_value() || plan_.counts_values());
  if (seen_.has_value()) return seen_->Finish(histogram, quantiles);
  return ComputeStatistics(std::span(counters_).first<kByteValues>(), plan_.binning(), quantiles);
}

}  // namespace histogram
