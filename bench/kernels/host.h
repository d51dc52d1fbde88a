// The host path: from payloads in pinned memory, or anywhere in host memory, to their counts there.
#ifndef HISTOGRAM_BENCH_KERNELS_HOST_H_
#define HISTOGRAM_BENCH_KERNELS_HOST_H_

#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

enum class PayloadsIn {
  kPinnedMemory,    // where the lane would gather them
  kPageableMemory,  // as a server receives them: each batch is gathered
};

// Lanes are threads of their own, as on a server. `seconds` is the time per row.
std::vector<HostRow> MeasureHost(const Harness& harness, PayloadsIn where, uint32_t spin_us_max,
                                 double seconds);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_HOST_H_
