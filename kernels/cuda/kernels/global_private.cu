#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kBlocksPerMultiprocessor = 2;

// A copy of the bins per block in global memory, merged by the block at its end.
__global__ void GlobalPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row,
                                      uint32_t* copies) {
  uint32_t* const copy = copies + uint64_t{blockIdx.x} * kByteValues;
  if (threadIdx.x < kByteValues) copy[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&copy[data[i]], 1U);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x < kByteValues) {
    const uint32_t count = __ldcg(&copy[threadIdx.x]);
    if (count != 0) atomicAdd(&row[threadIdx.x], count);
  }
}

uint64_t ScratchBytes(const DeviceTraits& device, uint32_t /*payload_bytes_max*/) {
  return uint64_t{device.multiprocessors} * kBlocksPerMultiprocessor * kRowBytes;
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks = std::min((bytes - 1) / kThreads + 1,
                                   launch.device->multiprocessors * kBlocksPerMultiprocessor);
  GlobalPrivateKernelOf<<<blocks, kThreads, 0, launch.stream>>>(
      data, bytes, row, static_cast<uint32_t*>(launch.scratch));
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "global_private",
     .summary = "a copy of the bins per block in global memory",
     .enqueue = Enqueue,
     .slow = true,
     .scratch_bytes = ScratchBytes});

}  // namespace

extern const CudaKernel* const kGlobalPrivate = &kKernel;

}  // namespace histogram::cuda
