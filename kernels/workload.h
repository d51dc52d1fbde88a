// The shape of a batch, on which the choice of a kernel depends, and a payload's fragment.
#ifndef HISTOGRAM_KERNELS_WORKLOAD_H_
#define HISTOGRAM_KERNELS_WORKLOAD_H_

#include <histogram/values.h>

#include <cstdint>
#include <span>

namespace histogram {

// Consecutive bytes of a payload. Does not own them.
using Fragment = std::span<const uint8_t>;

inline uint64_t BytesOf(std::span<const Fragment> fragments) {
  uint64_t bytes = 0;
  for (const Fragment& fragment : fragments) bytes += fragment.size();
  return bytes;
}

// The shape of a batch. The choice of a kernel depends on it.
struct Workload {
  uint32_t sample_bytes = 0;         // of a typed sample; 0: bytes, counted by value
  uint32_t bin_count = kByteValues;  // the largest in the batch
  uint64_t payload_bytes = 0;        // the largest payload of the batch
  uint32_t payload_count = 1;
  uint64_t batch_bytes = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_WORKLOAD_H_
