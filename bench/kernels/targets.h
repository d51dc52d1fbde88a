// What the kernels are to reach, judged by the results of one run.
#ifndef HISTOGRAM_BENCH_KERNELS_TARGETS_H_
#define HISTOGRAM_BENCH_KERNELS_TARGETS_H_

#include <string>
#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

// The targets for which the results hold measurements: a partial run is judged in part. All but the
// selector's are ratios, and no times or rates.
std::vector<TargetRow> JudgeTargets(const Results& results);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_TARGETS_H_
