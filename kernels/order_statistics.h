// Finds the samples at given ranks without sorting all samples. Exact quantiles need them.
//
// Rows that fit into a cache are sorted into buckets in one pass. The few samples in the ranks'
// buckets are selected (row_ranks.cc). All else (order_statistics.cc):
//
// Each sample has an integer key that orders as the sample does. With AVX-512, few ranks take one
// pass: some samples tell between which keys those at the ranks lie. The pass counts the samples up
// to these keys and collects those between them. They are searched in the same way.
//
// Ranks that this does not find, and many ranks, take two passes. The first counts the samples in
// buckets of keys. That gives the bucket of each rank. The second collects the samples of small
// buckets, and those at the ranks are selected. A large bucket is split into buckets in the same
// way.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_ORDER_STATISTICS_H_
#define HISTOGRAM_KERNELS_ORDER_STATISTICS_H_

#include <histogram/sample_type.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace histogram::internal {

// The key of the sample at each rank, in the ranks' order. BitsOfKey turns a key into its sample.
// NaN has the greatest key. -0.0 has the key of 0.0. `threads`: the most to use; 0:
// UsableCores(). REQUIRES: samples.size() is a multiple of SampleBytes(type); ranks ascend,
// and each is less than the number of samples.
std::vector<uint64_t> KeysAtRanks(std::span<const std::byte> samples, SampleType type,
                                  std::span<const uint64_t> ranks, uint32_t threads);

// The most samples of a row where there is one. More of them are found sooner otherwise: 1,000
// normal f32 take 0.36 G samples/s as a row and 0.05 otherwise, 60,000 0.47 and 0.52 (Xeon,
// b01a8bb8).
inline constexpr size_t kLoneRowSamplesMax = size_t{1} << 15;

// The same of each of many rows of one length. Writes the sample at rank r of row i to place
// r * rows + i of `out`, which has a place for each. Where a row has a NaN, each of its places gets
// a NaN. -0.0 becomes 0.0. REQUIRES: samples.size() is rows * length samples, length > 0; ranks
// ascend, and each is less than length.
void SamplesAtRanksOfRows(std::span<const std::byte> samples, SampleType type, size_t length,
                          std::span<const uint64_t> ranks, uint32_t threads,
                          std::span<std::byte> out);

// The bits of the sample with this key, in the least significant bytes.
uint64_t BitsOfKey(uint64_t key, SampleType type);

// Up to so many keys are sorted. Not measured apart.
inline constexpr size_t kSortedMax = 48;
// Puts the right keys at the places, which ascend and are counted from `before`: those that sorting
// would put there.
template <typename Key>
void SelectAll(Key* first, Key* end, std::span<const uint64_t> places, uint64_t before = 0) {
  if (places.empty()) return;
  if (static_cast<size_t>(end - first) <= kSortedMax) return std::sort(first, end);
  const uint64_t middle = places[places.size() / 2];
  Key* const at = first + (middle - before);
  std::nth_element(first, at, end);
  const auto [less, greater] = std::equal_range(places.begin(), places.end(), middle);
  SelectAll(first, at, {places.begin(), less}, before);
  SelectAll(at + 1, end, {greater, places.end()}, middle + 1);
}

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

#endif  // HISTOGRAM_KERNELS_ORDER_STATISTICS_H_
