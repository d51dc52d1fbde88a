// How often each byte value occurs: what is counted, and what all binnings and statistics are
// computed from.
#ifndef HISTOGRAM_VALUES_H_
#define HISTOGRAM_VALUES_H_

#include <array>
#include <cstdint>

namespace histogram {

inline constexpr uint32_t kByteValues = 256;
// The most bins of a binning.
inline constexpr uint32_t kBinCountMax = uint32_t{1} << 24;

// The count of each of the 256 values. Counts of several parts add up, value by value.
using ValueCounts = std::array<uint64_t, kByteValues>;

}  // namespace histogram

#endif  // HISTOGRAM_VALUES_H_
