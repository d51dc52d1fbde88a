// The simplest count of samples. The server and tests compare every kernel with it.
#ifndef HISTOGRAM_KERNELS_REFERENCE_H_
#define HISTOGRAM_KERNELS_REFERENCE_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// The plan's counters of a payload, by plain loops. REQUIRES: the fragments hold whole samples.
std::vector<uint64_t> ReferenceCounters(absl::Span<const Fragment> fragments, const Plan& plan);
// The counts of typed samples, by comparison with the edges alone: the bins, then the samples
// below, above and NaN. REQUIRES: the binning has edges; the fragments together hold whole samples.
std::vector<uint64_t> ReferenceSlots(absl::Span<const Fragment> fragments, const Binning& binning,
                                     SampleType type);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_REFERENCE_H_
