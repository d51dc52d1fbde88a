// The simplest count of bytes, with which tests and benchmarks compare every kernel and backend.
#ifndef HISTOGRAM_TESTS_KERNELS_REFERENCE_H_
#define HISTOGRAM_TESTS_KERNELS_REFERENCE_H_

#include <histogram/binning.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// How often each value occurs in `payload`.
inline ValueCounts ReferenceCounts(absl::Span<const uint8_t> payload) {
  ValueCounts counts{};
  for (const uint8_t value : payload) ++counts[value];
  return counts;
}

// The histogram of `payload`, by Binning::bin_of of each byte.
inline Histogram ReferenceHistogram(absl::Span<const uint8_t> payload, const Binning& binning) {
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

#endif  // HISTOGRAM_TESTS_KERNELS_REFERENCE_H_
