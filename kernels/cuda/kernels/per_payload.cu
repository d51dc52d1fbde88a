#include <algorithm>
#include <utility>

#include "kernels/cuda/base/cuda_status.h"
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
  if (index == kCurrentDevice) HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaGetDevice(&index));
  traits.index = index;
  uint32_t major = 0, minor = 0;
  for (const auto& [attribute, out] :
       {std::pair(cudaDevAttrMultiProcessorCount, &traits.multiprocessors),
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, &traits.shared_bytes_max},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, &traits.shared_bytes_multiprocessor},
        {cudaDevAttrReservedSharedMemoryPerBlock, &traits.shared_bytes_reserved},
        {cudaDevAttrComputeCapabilityMajor, &major},
        {cudaDevAttrComputeCapabilityMinor, &minor}}) {
    int value = 0;
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaDeviceGetAttribute(&value, attribute, index));
    *out = static_cast<uint32_t>(value);
  }
  traits.compute_capability = static_cast<int>(major * 10 + minor);
  return absl::OkStatus();
}

}  // namespace histogram::cuda
