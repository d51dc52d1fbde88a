// Finds the samples at given ranks of each of many rows of one length. Quantiles of rows need them.
//
// Rows that fit into a cache are sorted into buckets in one pass. The few samples in the ranks'
// buckets are selected. Longer rows are searched one by one (order_statistics.h).
//
// Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_ROW_RANKS_H_
#define HISTOGRAM_KERNELS_ROW_RANKS_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace histogram::internal {

// The most samples of a row where there is one. More of them are found sooner otherwise: 1,000
// normal f32 take 0.36 G samples/s as a row and 0.05 otherwise, 60,000 0.47 and 0.52 (Xeon,
// b01a8bb8).
inline constexpr size_t kLoneRowSamplesMax = size_t{1} << 15;

// Writes the sample at rank r of row i to place r * rows + i of `out`, which has a place for each.
// Where a row has a NaN, each of its places gets a NaN. -0.0 becomes 0.0. `threads`: the most to
// use; 0: UsableCores(). REQUIRES: samples.size() is rows * length samples, length > 0; ranks
// ascend, and each is less than length.
void SamplesAtRanksOfRows(std::span<const std::byte> samples, SampleType type, size_t length,
                          std::span<const uint64_t> ranks, uint32_t threads,
                          std::span<std::byte> out);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ROW_RANKS_H_
