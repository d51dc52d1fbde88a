// How a batch lies in memory, as kernels see it: a header, and one descriptor a payload. A batch
// kernel shares a batch out over its teams of warps by units of work. Plain types and functions,
// used on host and device; no CUDA call.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_WORK_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_WORK_H_

#include <cstdint>

#include "absl/types/span.h"

namespace histogram::cuda {

// A team of two warps reads a payload in rounds: one 16-byte load in each of its 64 threads.
inline constexpr uint32_t kRoundBytes = 1024;

// A payload. `bytes` fits 32 bits since no lane and no launch holds 4 GiB.
struct alignas(16) PayloadDescriptor {
  uint64_t offset;  // of its first byte, from the launch's input
  uint32_t bytes;
  uint32_t start;  // units of all payloads before it
};

// Lies in front of the descriptors, in the same memory.
struct alignas(16) BatchHeader {
  uint32_t payload_count;
  uint32_t units;       // of all payloads
  uint32_t flag_value;  // what the launch writes to its flag when all rows are written
  uint32_t reserved;
};

// REQUIRES: bytes < 4 GiB.
inline constexpr uint32_t RoundsOf(uint32_t bytes) {
  return bytes / kRoundBytes + (bytes % kRoundBytes != 0 ? 1 : 0);
}

// Fills in each `start`. Returns the sum of the units: the rounds of each payload and `overhead`.
// That is the cost of a payload besides them, in rounds: its result row has to be collected and
// written. Shapes the shares only, never the answer. REQUIRES: fewer than 2^32 units.
inline uint32_t AssignUnits(absl::Span<PayloadDescriptor> payloads, uint32_t overhead) {
  uint32_t units = 0;
  for (PayloadDescriptor& payload : payloads) {
    payload.start = units;
    units += RoundsOf(payload.bytes) + overhead;
  }
  return units;
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_WORK_H_
