// Exact statistics of the samples that fell into bins, from the counts of each value.
//
// Definitions: mean and population standard deviation over the binned samples; the median of an
// even number is the mean of the middle two; mode is the smallest of the most frequent values;
// entropy is Shannon's over the bins, base 2; quantiles follow numpy's 'linear' method; Otsu's
// threshold is the smallest t that maximises the between-class variance of {<= t} and {> t} (N.
// Otsu, 1979).
#ifndef HISTOGRAM_STATISTICS_H_
#define HISTOGRAM_STATISTICS_H_

#include <histogram/binning.h>
#include <histogram/values.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace histogram {

// A field without a value (no binned samples; fewer than two distinct values for Otsu) is absent.
struct Statistics {
  std::optional<double> minimum, maximum, mean, standard_deviation, median, mode, entropy_bits,
      otsu_threshold;
  std::vector<double> quantiles;  // one per asked-for quantile; empty when there are no samples

  friend bool operator==(const Statistics&, const Statistics&) = default;
};

// REQUIRES: each of `quantiles` is in [0, 1].
Statistics ComputeStatistics(const ValueCounts& values, const Binning& binning,
                             std::span<const double> quantiles = {});
inline Statistics ComputeStatistics(const ValueCounts& values, const Binning& binning,
                                    std::initializer_list<double> quantiles) {
  return ComputeStatistics(values, binning,
                           std::span<const double>(quantiles.begin(), quantiles.size()));
}

}  // namespace histogram

#endif  // HISTOGRAM_STATISTICS_H_
