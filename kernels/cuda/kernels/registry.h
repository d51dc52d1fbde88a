// Every CUDA kernel of bytes, by name.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_REGISTRY_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_REGISTRY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

absl::Span<const CudaKernel* const> Kernels();

// Null where there is none of that name.
const CudaKernel* FindKernel(absl::string_view name);

// "a, b, c", for messages.
std::string KernelNames();

// Prepares every kernel on the current device.
absl::Status PrepareKernels(const DeviceTraits& device);

// The most that any kernel needs of each kind of memory; at least 1.
uint64_t ScratchBytesMax(const DeviceTraits& device, uint32_t payload_bytes_max);
uint64_t CleanBytesMax(const DeviceTraits& device);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_REGISTRY_H_
