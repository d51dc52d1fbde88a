#include <algorithm>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {

absl::Status PerPayloadKernel::Enqueue(const Launch& launch) const {
  const bool zero_rows = !traits_.overwrites_row ||
                         std::any_of(launch.payloads.begin(), launch.payloads.end(),
                                     [](const PayloadDescriptor& p) { return p.bytes == 0; });
  if (zero_rows) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaMemsetAsync(launch.rows, 0, launch.payloads.size() * kRowBytes, launch.stream));
  }
  for (size_t i = 0; i < launch.payloads.size(); ++i) {
    const PayloadDescriptor& payload = launch.payloads[i];
    if (payload.bytes == 0) continue;
    HISTOGRAM_RETURN_IF_ERROR(
        ToStatus(traits_.enqueue(launch, launch.input + payload.offset, payload.bytes,
                                 launch.rows + i * kByteValues),
                 name()));
  }
  return absl::OkStatus();
}

absl::Status ReadDeviceTraits(int index, DeviceTraits& traits) {
  const auto read = [index](cudaDeviceAttr attribute, uint32_t& out) {
    int value = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&value, attribute, index);
    out = static_cast<uint32_t>(value);
    return ToStatus(error, "cudaDeviceGetAttribute");
  };
  uint32_t major = 0, minor = 0, l2 = 0;
  traits.index = index;
  HISTOGRAM_RETURN_IF_ERROR(read(cudaDevAttrMultiProcessorCount, traits.multiprocessors));
  HISTOGRAM_RETURN_IF_ERROR(read(cudaDevAttrMaxSharedMemoryPerBlockOptin, traits.shared_bytes_max));
  HISTOGRAM_RETURN_IF_ERROR(
      read(cudaDevAttrMaxSharedMemoryPerMultiprocessor, traits.shared_bytes_multiprocessor));
  HISTOGRAM_RETURN_IF_ERROR(
      read(cudaDevAttrReservedSharedMemoryPerBlock, traits.shared_bytes_reserved));
  HISTOGRAM_RETURN_IF_ERROR(read(cudaDevAttrL2CacheSize, l2));
  HISTOGRAM_RETURN_IF_ERROR(read(cudaDevAttrComputeCapabilityMajor, major));
  HISTOGRAM_RETURN_IF_ERROR(read(cudaDevAttrComputeCapabilityMinor, minor));
  traits.l2_bytes = l2;
  traits.compute_capability = static_cast<int>(major * 10 + minor);
  return absl::OkStatus();
}

}  // namespace histogram::cuda
