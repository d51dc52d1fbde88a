// Statistics of typed samples that fell into bins.
//
//   histogram::Histogram h = histogram::Count(std::as_bytes(samples), *plan);
//   histogram::Statistics s = histogram::ComputeStatistics(std::as_bytes(samples), *plan, h,
//   {0.5});
//
// Samples of 8 and 16 bits: as statistics.h defines them, from the counts of each value. Wider
// ones: minimum, maximum, median and quantiles are exact; mean and standard deviation are right to
// 1e-12 of the bins' range; entropy is that of the bins; Otsu's threshold is the upper edge of a
// bin, by the middles of the bins; there is no mode. Integers of 64 bits are reported as the
// nearest double, -0.0 as 0.0.
//
// A SampleStatistics is not thread-safe; the functions are.
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

// All statistics. `histogram`: that of the samples by the plan.
// REQUIRES: samples.size() is a multiple of SampleBytes(plan.type()); each of `quantiles` is in
// [0, 1].
Statistics ComputeStatistics(std::span<const std::byte> samples, const Plan& plan,
                             const Histogram& histogram, std::span<const double> quantiles = {});
inline Statistics ComputeStatistics(std::span<const std::byte> samples, const Plan& plan,
                                    const Histogram& histogram,
                                    std::initializer_list<double> quantiles) {
  return ComputeStatistics(samples, plan, histogram,
                           std::span<const double>(quantiles.begin(), quantiles.size()));
}

// What can be said of samples that are seen once, part by part: all but the median and quantiles of
// types of 32 and 64 bits.
class SampleStatistics {
 public:
  explicit SampleStatistics(const Plan& plan);

  // REQUIRES: samples.size() is a multiple of SampleBytes of the plan's type.
  void Add(std::span<const std::byte> samples);
  // Adds what was seen elsewhere. REQUIRES: by the same plan.
  void Merge(const SampleStatistics& more);
  // `histogram`: that of the samples added. `quantiles` are given for types of 8 and 16 bits.
  Statistics Finish(const Histogram& histogram, std::span<const double> quantiles = {}) const;

 private:
  // Of numbers: how many, their mean, and the sum of the squared distances from it.
  struct Moments {
    uint64_t count = 0;
    double mean = 0, squares = 0;
    static Moments Of(std::span<const double> numbers);
    void Merge(const Moments& more);
  };

  Plan plan_;
  std::vector<uint64_t> patterns_;  // of types of 8 and 16 bits: how often each occurs
  // Of wider ones, in bins. Moments are measured from the least sample that a bin can hold.
  Moments moments_;
  double minimum_ = std::numeric_limits<double>::infinity(), maximum_ = -minimum_;
};

}  // namespace histogram

#endif  // HISTOGRAM_SAMPLE_STATISTICS_H_
