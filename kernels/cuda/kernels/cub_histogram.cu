#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <limits>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

cudaError_t CountEven(void* temporary, size_t& temporary_bytes, const uint8_t* data, uint32_t bytes,
                      uint32_t* row, cudaStream_t stream) {
  const auto count = [&](auto samples) {
    return cub::DeviceHistogram::HistogramEven(temporary, temporary_bytes, data, row,
                                               static_cast<int>(kByteValues) + 1, 0,
                                               static_cast<int>(kByteValues), samples, stream);
  };
  // 32-bit offsets are faster and do where they reach.
  if (bytes <= std::numeric_limits<int>::max()) return count(static_cast<int>(bytes));
  return count(static_cast<int64_t>(bytes));
}

uint64_t ScratchBytes(const DeviceTraits& /*device*/, uint32_t payload_bytes_max) {
  size_t bytes = 0;
  const cudaError_t error =
      CountEven(nullptr, bytes, nullptr, std::max(1U, payload_bytes_max), nullptr, nullptr);
  return error == cudaSuccess ? bytes : 0;
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  size_t needed = 0;
  const cudaError_t error = CountEven(nullptr, needed, data, bytes, row, launch.stream);
  if (error != cudaSuccess) return error;
  return CountEven(launch.scratch, needed, data, bytes, row, launch.stream);
}

// The baseline.
constinit const PerPayloadKernel kKernel({.name = "cub_histogram",
                                          .summary = "cub::DeviceHistogram::HistogramEven",
                                          .enqueue = Enqueue,
                                          .overwrites_row = true,
                                          .scratch_bytes = ScratchBytes});

}  // namespace

extern const CudaKernel* const kCubHistogram = &kKernel;

}  // namespace histogram::cuda
