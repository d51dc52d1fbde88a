#include <histogram/tally.h>
#include <histogram/usable_cores.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "kernels/parallel.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"

namespace histogram {
namespace {

// Starting a thread takes about 30 us. A core counts this many bytes in that time.
constexpr size_t kThreadBytesMin = size_t{512} << 10;

void CountInto(const Plan& plan, std::span<const std::byte> samples, std::span<uint64_t> counters) {
  const Fragment fragment(reinterpret_cast<const uint8_t*>(samples.data()), samples.size());
  AddPayload(plan, {&fragment, 1}, counters);
}

void AddUp(std::span<const uint64_t> more, std::span<uint64_t> sums) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
}

}  // namespace

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

Tally::Tally(const Plan& plan, bool statistics) : plan_(plan), counters_(plan.counter_count()) {
  if (statistics && !plan.counts_values()) seen_.emplace(plan);
}

void Tally::Add(std::span<const std::byte> samples, uint32_t threads) {
  const size_t size = SampleBytes(plan_.type());
  assert(samples.size() % size == 0);
  if (threads == 0) threads = UsableCores();
  // Each thread also clears and sums its counters.
  const size_t least = std::max(kThreadBytesMin, counters_.size() * 4 * size);
  const auto parts = static_cast<uint32_t>(std::clamp<size_t>(samples.size() / least, 1, threads));
  if (parts == 1) {
    CountInto(plan_, samples, counters_);
    samples_ += samples.size() / size;
    return See(samples);
  }
  const size_t part_bytes = samples.size() / size / parts * size;
  std::vector<Tally> others(parts - 1, Tally(plan_, seen_.has_value()));
  internal::InParallel(parts, [&](size_t p) {
    if (p == 0) return Add(samples.first(part_bytes));
    const size_t length = p + 1 == parts ? samples.size() - part_bytes * p : part_bytes;
    others[p - 1].Add(samples.subspan(part_bytes * p, length));
  });
  for (const Tally& other : others) Merge(other);
}

void Tally::Merge(const Tally& more) {
  Absorb(more.counters_, more.samples_);
  if (seen_.has_value()) seen_->Merge(*more.seen_);
}

void Tally::Absorb(std::span<const uint64_t> counters, uint64_t samples) {
  assert(counters.size() == counters_.size());
  AddUp(counters, counters_);
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
