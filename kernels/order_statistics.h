// Finds the samples at given ranks without sorting all samples. Exact quantiles need them.
//
// Each sample has an integer key that orders as the sample does. A round counts the samples by the
// next 16 bits of their keys. That gives the bucket of each rank. A small bucket is collected and
// its samples at the ranks are selected. A large bucket is counted by its next 16 bits.
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
