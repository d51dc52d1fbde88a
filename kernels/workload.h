// What the choice of a kernel depends on, and the plain types that every module shares.
#ifndef HISTOGRAM_KERNELS_WORKLOAD_H_
#define HISTOGRAM_KERNELS_WORKLOAD_H_

#include <histogram/values.h>

#include <cstdint>
#include <span>

namespace histogram {

// A run of payload bytes that somebody else owns.
using Fragment = std::span<const uint8_t>;

// The shape of a batch, as far as the choice of a kernel depends on it.
struct Workload {
  uint32_t sample_bytes = 0;         // of typed samples; 0: bytes, counted by their value
  uint32_t bin_count = kByteValues;  // the largest in the batch
  uint64_t payload_bytes = 0;        // the largest payload of the batch
  uint32_t payload_count = 1;
  uint64_t batch_bytes = 0;
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_WORKLOAD_H_
