// The host path: payloads that lie in pinned memory, until their counts lie in host memory.
#ifndef HISTOGRAM_BENCH_KERNELS_HOST_H_
#define HISTOGRAM_BENCH_KERNELS_HOST_H_

#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

// Lanes are threads of their own, as on a server. `seconds` is the time per row.
std::vector<HostRow> MeasureHost(const Harness& harness, uint32_t spin_us_max, double seconds);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_HOST_H_
