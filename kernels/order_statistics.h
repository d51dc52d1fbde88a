// Finds the samples at given ranks without sorting all samples. Exact quantiles need them.
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

// The bits of the sample with this key, in the least significant bytes.
uint64_t BitsOfKey(uint64_t key, SampleType type);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ORDER_STATISTICS_H_
