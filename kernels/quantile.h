// Quantiles of sorted samples. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_QUANTILE_H_
#define HISTOGRAM_KERNELS_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

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

// Appends the ranks that the quantiles are computed from. Then ranks ascend, each once.
inline void AppendRanks(uint64_t total, std::span<const double> quantiles,
                        std::vector<uint64_t>& ranks) {
  const auto note = [&ranks](uint64_t rank) {
    ranks.push_back(rank);
    return 0.0;
  };
  for (const double q : quantiles) static_cast<void>(QuantileOf(total, q, note));
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_QUANTILE_H_
