// A quantile of sorted samples. Thread-safe: the function has no state.
#ifndef HISTOGRAM_KERNELS_QUANTILE_H_
#define HISTOGRAM_KERNELS_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace histogram::internal {

// The q-quantile of `total` samples, interpolated as numpy.quantile(..., method='linear') does.
// `at(rank)` is the sample at that rank, from 0, in ascending order. REQUIRES: total > 0.
template <typename At>
double QuantileOf(uint64_t total, double q, const At& at) {
  const uint64_t last = total - 1;
  const double index = static_cast<double>(last) * std::clamp(q, 0.0, 1.0);
  const double floor = std::floor(index);
  if (!(floor < static_cast<double>(last))) return at(last);
  const auto rank = static_cast<uint64_t>(floor);
  const double a = at(rank), b = at(std::min(rank + 1, last));
  const double fraction = index - floor;
  return fraction < 0.5 ? a + (b - a) * fraction : b - (b - a) * (1 - fraction);
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_QUANTILE_H_
