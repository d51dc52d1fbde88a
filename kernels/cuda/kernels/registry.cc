#include "kernels/cuda/kernels/registry.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

// One line a kernel, each defined in the file of its name: in the order of the literature, then
// ours.
#define HISTOGRAM_CUDA_KERNELS(KERNEL) \
  KERNEL(NaiveElement)                 \
  KERNEL(NaiveSection)                 \
  KERNEL(NaiveInterleaved)             \
  KERNEL(GlobalPrivate)                \
  KERNEL(SharedPrivate)                \
  KERNEL(SharedSection)                \
  KERNEL(RegisterPrivate)              \
  KERNEL(RunAccumulator)               \
  KERNEL(PackedThread)                 \
  KERNEL(CubHistogram)                 \
  KERNEL(LanePrivate)                  \
  KERNEL(WarpBatch)                    \
  KERNEL(QuadBatch)                    \
  KERNEL(OneBlock)

#define HISTOGRAM_DECLARE(name) extern const CudaKernel* const k##name;
HISTOGRAM_CUDA_KERNELS(HISTOGRAM_DECLARE)
#undef HISTOGRAM_DECLARE

absl::Span<const CudaKernel* const> Kernels() {
#define HISTOGRAM_ADDRESS(name) k##name,
  static const std::array kKernels = {HISTOGRAM_CUDA_KERNELS(HISTOGRAM_ADDRESS)};
#undef HISTOGRAM_ADDRESS
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

}  // namespace histogram::cuda
