// What the kernels are to reach, judged by the results of one run.
#ifndef HISTOGRAM_BENCH_KERNELS_TARGETS_H_
#define HISTOGRAM_BENCH_KERNELS_TARGETS_H_

#include <string>
#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

// Whatever the results hold the measurements for; a partial run is judged in part. All but the
// distance of the selector's choices are fractions of the same device's own ceilings and bounds.
std::vector<TargetRow> JudgeTargets(const Results& results);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_TARGETS_H_
