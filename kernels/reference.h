// The oracle: the plainest possible count, which every kernel and backend is tested against.
#ifndef HISTOGRAM_KERNELS_REFERENCE_H_
#define HISTOGRAM_KERNELS_REFERENCE_H_

#include <histogram/binning.h>

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// How often each value occurs in `payload`.
ValueCounts ReferenceCounts(absl::Span<const uint8_t> payload);

// The histogram by asking, sample by sample, which bin it goes to.
Histogram ReferenceHistogram(absl::Span<const uint8_t> payload, const Binning& binning);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_REFERENCE_H_
