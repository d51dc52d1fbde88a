// What the choice of a kernel depends on, and the plain types that every module shares.
#ifndef HISTOGRAM_KERNELS_WORKLOAD_H_
#define HISTOGRAM_KERNELS_WORKLOAD_H_

#include <array>
#include <cstdint>

namespace histogram {

enum class SampleType : uint8_t { kUint8 = 1 };

inline constexpr uint32_t kByteValues = 256;
inline constexpr uint32_t kBinCountMax = 65536;

// How often each of the 256 byte values occurs. Every uint8 binning is a fold of these.
using ValueCounts = std::array<uint64_t, kByteValues>;

// The shape of a batch, as far as the choice of a kernel depends on it.
struct Workload {
  SampleType sample_type = SampleType::kUint8;
  uint32_t bin_count = kByteValues;  // the largest in the batch
  uint64_t payload_bytes = 0;        // the largest payload of the batch
  uint32_t payload_count = 1;
  uint64_t batch_bytes = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_WORKLOAD_H_
