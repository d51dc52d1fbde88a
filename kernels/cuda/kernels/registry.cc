#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// Ours, each defined in the file of its name.
extern const CudaKernel kLanePrivate, kWarpBatch, kQuadBatch, kOneBlock;
absl::Span<const CudaKernel> Literature();  // literature.cu

absl::Status CudaKernel::Enqueue(const Launch& launch) const {
  if (adds_to_rows) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(
        cudaMemsetAsync(launch.rows, 0, launch.payloads.size() * kRowBytes, launch.stream));
  }
  const size_t calls = batches ? 1 : launch.payloads.size();
  for (size_t i = 0; i < calls; ++i) {
    if (adds_to_rows && launch.payloads[i].bytes == 0) continue;
    HISTOGRAM_RETURN_IF_ERROR(ToStatus(enqueue(launch, i), absl::StrCat("launch of ", name)));
  }
  return absl::OkStatus();
}

// In the order of the literature, then ours.
absl::Span<const CudaKernel* const> Kernels() {
  static const auto& kKernels = *new std::vector([] {
    std::vector<const CudaKernel*> kernels;
    for (const CudaKernel& kernel : Literature()) kernels.push_back(&kernel);
    kernels.insert(kernels.end(), {&kLanePrivate, &kWarpBatch, &kQuadBatch, &kOneBlock});
    return kernels;
  }());
  return kKernels;
}

const CudaKernel* FindKernel(absl::string_view name) {
  const absl::Span<const CudaKernel* const> kernels = Kernels();
  const auto* const found =
      std::find_if(kernels.begin(), kernels.end(),
                   [name](const CudaKernel* kernel) { return kernel->name == name; });
  return found == kernels.end() ? nullptr : *found;
}

std::vector<std::string> KernelNames() {
  std::vector<std::string> names;
  for (const CudaKernel* kernel : Kernels()) names.emplace_back(kernel->name);
  return names;
}

absl::Status PrepareKernels(const DeviceTraits& device) {
  for (const CudaKernel* kernel : Kernels()) {
    if (kernel->prepare != nullptr) HISTOGRAM_RETURN_IF_ERROR(kernel->prepare(device));
  }
  return absl::OkStatus();
}

uint64_t ScratchBytesMax(const DeviceTraits& device, uint32_t payload_bytes_max) {
  uint64_t most = 1;
  for (const CudaKernel* kernel : Kernels()) {
    if (kernel->scratch_bytes == nullptr) continue;
    most = std::max(most, kernel->scratch_bytes(device, payload_bytes_max));
  }
  return most;
}

uint64_t CleanBytesMax(const DeviceTraits& device) {
  uint64_t most = 1;
  for (const CudaKernel* kernel : Kernels()) {
    if (kernel->clean_bytes != nullptr) most = std::max(most, kernel->clean_bytes(device));
  }
  return most;
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
