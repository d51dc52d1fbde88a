// What the selector picks for a workload, and how far that is from the best kernel there.
#ifndef HISTOGRAM_BENCH_KERNELS_CHOICES_H_
#define HISTOGRAM_BENCH_KERNELS_CHOICES_H_

#include <vector>

#include "bench/kernels/results.h"

namespace histogram::bench {

// Tunes as a server does at its start, then runs every kernel that could compete on a lane, from
// pageable memory to counts, for shapes of which only some were tuned. The best of many medians is
// in part the luckiest: the choice and the best are measured again, against each other alone.
std::vector<ChoiceRow> MeasureChoices(const Harness& harness);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_CHOICES_H_
