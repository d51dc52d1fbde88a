// The oracle: the plainest possible count, which every kernel and backend is tested against.
#ifndef HISTOGRAM_KERNELS_REFERENCE_H_
#define HISTOGRAM_KERNELS_REFERENCE_H_

#include <histogram/binning.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// How often each value occurs in `payload`.
ValueCounts ReferenceCounts(absl::Span<const uint8_t> payload);

// The histogram by asking, sample by sample, which bin it goes to.
Histogram ReferenceHistogram(absl::Span<const uint8_t> payload, const Binning& binning);

// Typed samples by comparison with the edges alone: the bins, then the samples below, above and
// NaN. REQUIRES: the binning has edges; the fragments are together a whole number of samples.
std::vector<uint64_t> ReferenceSlots(absl::Span<const Fragment> fragments, const Binning& binning,
                                     SampleType type);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_REFERENCE_H_
