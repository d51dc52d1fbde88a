// Statistics of values that are counted. Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_WEIGHTS_H_
#define HISTOGRAM_KERNELS_WEIGHTS_H_

#include <histogram/statistics.h>

#include <cstdint>
#include <span>

namespace histogram::internal {

// A value, and the number of samples with it.
struct Weight {
  double value;
  uint64_t count;
};

// Sets all but entropy and Otsu's threshold. REQUIRES: weights ascend, no count is 0, and together
// they are `total`; the floating-point mode is the library's.
void SetFromWeights(std::span<const Weight> weights, uint64_t total,
                    std::span<const double> quantiles, Statistics& out);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_WEIGHTS_H_
