// Counts a payload of typed samples in several fragments. A fragment may end within a sample.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_TYPED_PAYLOAD_H_
#define HISTOGRAM_KERNELS_TYPED_PAYLOAD_H_

#include <histogram/plan.h>
#include <histogram/sample_statistics.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/workload.h"

namespace histogram {

// Overwrites `row` with the counts of the payload's samples: the bins, then the samples below,
// above and NaN (internal::Outside). REQUIRES: the fragments together hold whole samples; row has
// internal::SlotCount(plan.bin_count()) counters.
void CountTypedPayload(const Plan& plan, std::span<const Fragment> fragments,
                       std::span<uint64_t> row);
// Adds the counts to `row` instead.
void AddTypedPayload(const Plan& plan, std::span<const Fragment> fragments,
                     std::span<uint64_t> row);
// Adds the payload's samples to `statistics`, which are of samples of `sample_bytes` bytes.
void AddPayloadTo(SampleStatistics& statistics, size_t sample_bytes,
                  std::span<const Fragment> fragments);

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_TYPED_PAYLOAD_H_
