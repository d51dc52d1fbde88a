// The interface of every CUDA kernel of bytes, and all of them by name, so that tests, benchmarks,
// the selector and the lanes can iterate over them. Includes CUDA's headers: only kernels/cuda, its
// tests and benchmarks see it.
//
// A kernel counts the values of each payload of a batch into a row of 256 u32. Kernels are plain
// data, without state, and thread-safe. Each of ours is one .cu file and its name in registry.cc;
// those of the literature are an entry each in literature.cu.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_KERNEL_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_KERNEL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram::cuda {

inline constexpr uint64_t kRowBytes = kByteValues * sizeof(uint32_t);

// --- How a batch lies in memory: a header, and one descriptor a payload. A batch kernel shares a
// batch out over its teams of warps by units of work.

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

// --- Kernels

// What the kernels need to know about a device.
struct DeviceTraits {
  int index = 0;
  uint32_t multiprocessors = 0;
  uint32_t shared_bytes_max = 0;  // of a block, when asked for
  uint32_t shared_bytes_multiprocessor = 0;
  uint32_t shared_bytes_reserved = 0;  // of each block, by the driver: 0 or 1024
  int compute_capability = 0;          // 90 for 9.0
};

inline constexpr int kCurrentDevice = -1;
// `index`: of a device, or kCurrentDevice.
absl::Status ReadDeviceTraits(int index, DeviceTraits& traits);

// One launch over one batch. All memory is the caller's and stays valid until the launch is done.
struct Launch {
  const uint8_t* input = nullptr;                // device-visible; any alignment
  const BatchHeader* header = nullptr;           // device-visible, descriptors behind it
  absl::Span<const PayloadDescriptor> payloads;  // the same descriptors for the host
  uint32_t units = 0;                            // as AssignUnits returned for the kernel
  uint32_t* rows = nullptr;                      // device-visible, one row a payload; overwritten
  // Gets header->flag_value once every row is written and visible to the host; see has_flag.
  uint32_t* flag = nullptr;
  // Device memory of one stream, of the sizes that the kernel asks for. `scratch` holds anything;
  // `clean` is zero before its first use, and every launch leaves it zero for the next.
  void* scratch = nullptr;
  void* clean = nullptr;
  // So many bytes from each payload's first on may be read, whatever its length; 0: only its own.
  uint32_t readable_bytes = 0;
  // Most blocks of this launch; 0 lets the kernel choose. Not every kernel heeds it.
  uint32_t blocks_max = 0;
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};

// How a lane launches small batches of a kernel: by graphs that it records at its start, the rungs
// of a ladder. Such a launch depends on the header and the descriptors alone.
enum class Ladder : uint8_t {
  kNone,
  kByBlocks,  // any batch; a rung for each number of blocks, set by Launch::blocks_max
  kByBytes,   // a lone payload; a rung for each Launch::readable_bytes
};

struct CudaKernel {
  absl::string_view name, summary;
  // Queues the work of one payload of the launch; with `batches` that of all, and 0 is passed.
  cudaError_t (*enqueue)(const Launch& launch, size_t payload) = nullptr;
  // One launch counts many payloads.
  bool batches = false;
  // What AssignUnits is to be called with for this kernel.
  uint32_t payload_overhead_units = 1;
  // Writes each row once and reads none, so that rows may lie in mapped host memory, and sets the
  // launch's flag.
  bool has_flag = false;
  // To rows that are zero before. Payloads without bytes are left out.
  bool adds_to_rows = false;
  Ladder ladder = Ladder::kNone;
  // So slow that tests and benchmarks give it small payloads only.
  bool slow = false;
  // Null: 0. REQUIRES: no payload is larger than payload_bytes_max.
  uint64_t (*scratch_bytes)(const DeviceTraits& device, uint32_t payload_bytes_max) = nullptr;
  uint64_t (*clean_bytes)(const DeviceTraits& device) = nullptr;  // null: 0
  // Null, or called once per device, before the first launch (with that device current).
  absl::Status (*prepare)(const DeviceTraits& device) = nullptr;

  // Queues the work on launch.stream. May be captured into a graph.
  absl::Status Enqueue(const Launch& launch) const;
};

absl::Span<const CudaKernel* const> Kernels();
// The names of Kernels(). Ours are last, and preferred.
std::vector<std::string> KernelNames();
// Null where there is none of that name.
const CudaKernel* FindKernel(absl::string_view name);

// Prepares every kernel on the current device.
absl::Status PrepareKernels(const DeviceTraits& device);

// The most that any kernel needs of each kind of memory; at least 1.
uint64_t ScratchBytesMax(const DeviceTraits& device, uint32_t payload_bytes_max);
uint64_t CleanBytesMax(const DeviceTraits& device);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_KERNEL_H_
