// The counts of the 256 byte values. Histograms and statistics of bytes are computed from them.
#ifndef HISTOGRAM_VALUES_H_
#define HISTOGRAM_VALUES_H_

#include <array>
#include <cstdint>

namespace histogram {

inline constexpr uint32_t kByteValues = 256;
// The most bins that a binning may have.
inline constexpr uint32_t kBinCountMax = uint32_t{1} << 24;

// The count of each of the 256 values. Sum the counts of several parts value by value.
using ValueCounts = std::array<uint64_t, kByteValues>;

}  // namespace histogram

#endif  // HISTOGRAM_VALUES_H_
