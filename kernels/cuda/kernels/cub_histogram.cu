#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <limits>

#include "kernels/cuda/device/cuda_status.h"
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

// The baseline.
class CubHistogramKernel final : public PerPayloadKernel {
 public:
  absl::string_view name() const override { return "cub_histogram"; }
  absl::string_view summary() const override { return "cub::DeviceHistogram::HistogramEven"; }
  uint64_t scratch_bytes(const DeviceTraits& /*device*/,
                         uint32_t payload_bytes_max) const override {
    size_t bytes = 0;
    const cudaError_t error =
        CountEven(nullptr, bytes, nullptr, std::max(1U, payload_bytes_max), nullptr, nullptr);
    return error == cudaSuccess ? bytes : 0;
  }

 protected:
  bool overwrites_row() const override { return true; }
  absl::Status EnqueuePayload(const Launch& launch, const uint8_t* data, uint32_t bytes,
                              uint32_t* row) const override {
    size_t needed = 0;
    HISTOGRAM_CUDA_RETURN_IF_ERROR(CountEven(nullptr, needed, data, bytes, row, launch.stream));
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        CountEven(launch.scratch, needed, data, bytes, row, launch.stream));
    return absl::OkStatus();
  }
};

}  // namespace

const CudaKernel& CubHistogram() {
  static const CubHistogramKernel kernel;
  return kernel;
}

}  // namespace histogram::cuda
