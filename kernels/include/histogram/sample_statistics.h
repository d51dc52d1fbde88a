// Statistics of the typed samples in bins.
//
//   histogram::Histogram h = histogram::Count(std::as_bytes(samples), *plan);
//   histogram::Statistics s =
//       histogram::ComputeStatistics(std::as_bytes(samples), *plan, h, {0.5});
//
// Samples of 8 and 16 bits: as statistics.h defines them, from the counts of each value. Samples of
// 32 and 64 bits:
// - Minimum, maximum, median and quantiles are exact.
// - Mean and standard deviation are correct to 1e-12 of the bins' range.
// - Entropy is that of the bins. Otsu's threshold is the upper edge of a bin; each sample counts as
//   the middle of its bin. There is no mode.
// Integers of 64 bits are reported as the nearest double, -0.0 as 0.0.
//
// The functions are thread-safe. A SampleStatistics is not.
#ifndef HISTOGRAM_SAMPLE_STATISTICS_H_
#define HISTOGRAM_SAMPLE_STATISTICS_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/statistics.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

namespace histogram {

// All statistics. `histogram` is that of the samples under the plan.
// REQUIRES: the plan is not of bytes (see statistics.h); samples.size() is a multiple of
// SampleBytes(plan.type()); each of `quantiles` is in [0, 1].
Statistics ComputeStatistics(std::span<const std::byte> samples, const Plan& plan,
                             const Histogram& histogram, std::span<const double> quantiles = {});
inline Statistics ComputeStatistics(std::span<const std::byte> samples, const Plan& plan,
                                    const Histogram& histogram,
                                    std::initializer_list<double> quantiles) {
  return ComputeStatistics(samples, plan, histogram,
                           std::span<const double>(quantiles.begin(), quantiles.size()));
}

// Statistics of samples that come in parts, each seen once. Leaves out the median and quantiles of
// types of 32 and 64 bits.
class SampleStatistics {
 public:
  explicit SampleStatistics(const Plan& plan);  // REQUIRES: the plan is not of bytes.

  // REQUIRES: samples.size() is a multiple of SampleBytes of the plan's type.
  void Add(std::span<const std::byte> samples);
  // Adds the samples that `more` has seen. REQUIRES: both have the same plan.
  void Merge(const SampleStatistics& more);
  // `histogram` is that of all samples added. `quantiles`: for types of 8 and 16 bits only.
  Statistics Finish(const Histogram& histogram, std::span<const double> quantiles = {}) const;

 private:
  // The count of numbers, their mean, and the sum of their squared distances from the mean.
  struct Moments {
    uint64_t count = 0;
    double mean = 0, squares = 0;
    void Merge(const Moments& more);
  };

  Plan plan_;
  std::vector<uint64_t> patterns_;  // types of 8 and 16 bits: the count of each bit pattern
  // Wider types: the samples in bins. Moments are measured from the least sample of any bin, in
  // units of a power of two that is near the bins' range.
  Moments moments_;
  double minimum_ = std::numeric_limits<double>::infinity(), maximum_ = -minimum_;
};

}  // namespace histogram

#endif  // HISTOGRAM_SAMPLE_STATISTICS_H_
