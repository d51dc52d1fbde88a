// Exact statistics of the bytes in bins, from the counts of each value. Thread-safe.
//
// - Mean and population standard deviation are over the binned samples.
// - The median of an even number of samples is the mean of the middle two.
// - The mode is the smallest of the most frequent values.
// - Entropy is Shannon's, over the bins, in bits.
// - Quantiles follow numpy's 'linear' method.
// - Otsu's threshold is the smallest t that maximises the between-class variance of {<= t} and
//   {> t} (N. Otsu, 1979).
#ifndef HISTOGRAM_STATISTICS_H_
#define HISTOGRAM_STATISTICS_H_

#include <histogram/binning.h>
#include <histogram/values.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace histogram {

// All fields are absent if no sample is in a bin. Otsu needs two distinct values.
struct Statistics {
  std::optional<double> minimum, maximum, mean, standard_deviation, median, mode, entropy_bits,
      otsu_threshold;
  std::vector<double> quantiles;  // in the order asked for; empty if no sample is in a bin

  friend bool operator==(const Statistics&, const Statistics&) = default;
};

// REQUIRES: each of `quantiles` is in [0, 1].
Statistics ComputeStatistics(std::span<const uint64_t, kByteValues> values, const Binning& binning,
                             std::span<const double> quantiles = {});
inline Statistics ComputeStatistics(std::span<const uint64_t, kByteValues> values,
                                    const Binning& binning,
                                    std::initializer_list<double> quantiles) {
  return ComputeStatistics(values, binning,
                           std::span<const double>(quantiles.begin(), quantiles.size()));
}

}  // namespace histogram

#endif  // HISTOGRAM_STATISTICS_H_
