#include "kernels/reference.h"

#include <cstddef>

namespace histogram {

ValueCounts ReferenceCounts(absl::Span<const uint8_t> payload) {
  ValueCounts counts{};
  for (const uint8_t value : payload) ++counts[value];
  return counts;
}

Histogram ReferenceHistogram(absl::Span<const uint8_t> payload, const Binning& binning) {
  Histogram histogram;
  histogram.counts.assign(binning.bin_count(), 0);
  for (const uint8_t value : payload) {
    ++histogram.samples;
    const int32_t bin = binning.bin_of(value);
    if (bin == Binning::kBelow) {
      ++histogram.below;
    } else if (bin == Binning::kAbove) {
      ++histogram.above;
    } else if (bin == Binning::kIgnored) {
      ++histogram.ignored;
    } else {
      ++histogram.counts[static_cast<size_t>(bin)];
    }
  }
  return histogram;
}

}  // namespace histogram
