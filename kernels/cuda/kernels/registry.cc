#include "kernels/cuda/kernels/registry.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// Ours, each defined in the file of its name.
extern const CudaKernel *const kLanePrivate, *const kWarpBatch, *const kQuadBatch, *const kOneBlock;
void AddLiterature(std::vector<const CudaKernel*>& kernels);  // literature.cu

// In the order of the literature, then ours.
absl::Span<const CudaKernel* const> Kernels() {
  static const auto& kKernels = *new std::vector([] {
    std::vector<const CudaKernel*> kernels;
    AddLiterature(kernels);
    kernels.insert(kernels.end(), {kLanePrivate, kWarpBatch, kQuadBatch, kOneBlock});
    return kernels;
  }());
  return kKernels;
}

const CudaKernel* FindKernel(absl::string_view name) {
  const absl::Span<const CudaKernel* const> kernels = Kernels();
  const auto* const found =
      std::find_if(kernels.begin(), kernels.end(),
                   [name](const CudaKernel* kernel) { return kernel->name() == name; });
  return found == kernels.end() ? nullptr : *found;
}

std::string KernelNames() {
  return absl::StrJoin(Kernels(), ", ", [](std::string* out, const CudaKernel* kernel) {
    absl::StrAppend(out, kernel->name());
  });
}

absl::Status PrepareKernels(const DeviceTraits& device) {
  for (const CudaKernel* kernel : Kernels()) HISTOGRAM_RETURN_IF_ERROR(kernel->Prepare(device));
  return absl::OkStatus();
}

uint64_t ScratchBytesMax(const DeviceTraits& device, uint32_t payload_bytes_max) {
  uint64_t most = 1;
  for (const CudaKernel* kernel : Kernels()) {
    most = std::max(most, kernel->scratch_bytes(device, payload_bytes_max));
  }
  return most;
}

uint64_t CleanBytesMax(const DeviceTraits& device) {
  uint64_t most = 1;
  for (const CudaKernel* kernel : Kernels()) most = std::max(most, kernel->clean_bytes(device));
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
