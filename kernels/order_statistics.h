// The samples at given ranks, without sorting: what exact quantiles are made of.
//
// Samples are put in order by their key (kernels/plan_data.h), in rounds. A round counts the
// samples by the next 16 bits of their keys, and so finds the bucket of each rank. The samples of a
// bucket are collected and sorted when they are few, and counted by their next bits when they are
// not.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_ORDER_STATISTICS_H_
#define HISTOGRAM_KERNELS_ORDER_STATISTICS_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace histogram::internal {

// A key for each rank, in the ranks' order. A sample's key orders as the sample does; BitsOfKey
// gives the sample back. NaN has the greatest key, and -0.0 that of 0.0.
// REQUIRES: samples.size() is a multiple of SampleBytes(type); ranks ascend, and each is less than
// the number of samples.
std::vector<uint64_t> KeysAtRanks(std::span<const std::byte> samples, SampleType type,
                                  std::span<const uint64_t> ranks, uint32_t threads);

// The bits of the sample of that type and key, in the least significant bytes.
uint64_t BitsOfKey(uint64_t key, SampleType type);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ORDER_STATISTICS_H_
