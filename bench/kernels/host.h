// The host path: from payloads in pinned memory, where a lane would gather them, to their counts.
#ifndef HISTOGRAM_BENCH_KERNELS_HOST_H_
#define HISTOGRAM_BENCH_KERNELS_HOST_H_

#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

// Lanes are threads of their own, as on a server. `seconds` is the time per row.
std::vector<HostRow> MeasureHost(const Harness& harness, double seconds);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_HOST_H_
