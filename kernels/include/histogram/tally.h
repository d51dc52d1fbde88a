// A Tally is what has been counted under a plan, so far. Tallies merge. It counts samples of every
// type, bytes too, and keeps what their statistics need if asked to.
//
//   histogram::Tally tally(*plan, /*statistics=*/true);
//   while (ReadChunk(chunk)) tally.Add(chunk);
//   tally.Merge(theirs);
//   histogram::Histogram h = tally.Finish();
//   histogram::Statistics s = tally.FinishStatistics();
//
// Not thread-safe: give each thread a tally, and merge them.
#ifndef HISTOGRAM_TALLY_H_
#define HISTOGRAM_TALLY_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_statistics.h>
#include <histogram/statistics.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace histogram {

class Tally {
 public:
  explicit Tally(const Plan& plan, bool statistics = false);
  // Of counters that somebody else has filled for `samples` samples. See(them) adds what statistics
  // need of them. REQUIRES: counters.size() is plan.counter_count().
  Tally(const Plan& plan, bool statistics, std::vector<uint64_t> counters, uint64_t samples);

  const Plan& plan() const { return plan_; }
  uint64_t samples() const { return samples_; }
  // The plan's counters.
  std::span<const uint64_t> counters() const& { return counters_; }
  std::vector<uint64_t> counters() && { return std::move(counters_); }

  // Counts samples on up to `threads` threads, including the calling one. 0: UsableCores(). Short
  // arrays use fewer, and statistics one. REQUIRES: samples.size() is a multiple of
  // SampleBytes(plan().type()).
  void Add(std::span<const std::byte> samples, uint32_t threads = 1);
  // Adds what `more` has counted. REQUIRES: both have the same plan and keep the same.
  void Merge(const Tally& more);
  // Adds counters, as the constructor takes them.
  void Absorb(std::span<const uint64_t> counters, uint64_t samples);
  void See(std::span<const std::byte> samples);
  // Forgets everything but the plan.
  void Clear();

  Histogram Finish() const;
  // All statistics, but for types of 32 and 64 bits no median and quantiles. REQUIRES: made with
  // statistics; each of `quantiles` is in [0, 1].
  Statistics FinishStatistics(std::span<const double> quantiles = {}) const;
  // The same of the histogram of the samples seen.
  Statistics FinishStatistics(const Histogram& histogram, std::span<const double> quantiles) const;

 private:
  Plan plan_;
  uint64_t samples_ = 0;
  std::vector<uint64_t> counters_;
  std::optional<SampleStatistics> seen_;  // with statistics; of bytes the counters tell them
};

namespace internal {

// Sets `out` from a plan's counters. If the first of them are those of the bins (counts_bins), it
// leaves out.counts empty and out.samples as it is.
void FoldCounters(const Plan& plan, std::span<const uint64_t> counters, Histogram& out);

}  // namespace internal
}  // namespace histogram

#endif  // HISTOGRAM_TALLY_H_
