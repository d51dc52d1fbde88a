// What the files of the CPU kernels offer to the registry: a count and, where it depends on the
// processor, the test for it. Not for use elsewhere; see registry.h.
#ifndef HISTOGRAM_KERNELS_CPU_KERNELS_H_
#define HISTOGRAM_KERNELS_CPU_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/batch.h"

namespace histogram::cpu {

void CountScalar(absl::Span<const Fragment> fragments, uint64_t* counts);

void CountTables8(absl::Span<const Fragment> fragments, uint64_t* counts);

void CountRuns8(absl::Span<const Fragment> fragments, uint64_t* counts);

// REQUIRES: HasAvx512Counting().
void CountAvx512(absl::Span<const Fragment> fragments, uint64_t* counts);
void CountAvx512Shifts(absl::Span<const Fragment> fragments, uint64_t* counts);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_KERNELS_H_
