#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 1024;

// A copy of the bins per block in shared memory, grid-stride over the elements.
__global__ void SharedPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) counts[i] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&counts[data[i]], 1U);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks = std::min((bytes - 1) / kThreads + 1, launch.device->multiprocessors * 2);
  SharedPrivateKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "shared_private",
     .summary = "a copy of the bins per block in shared memory, interleaved",
     .enqueue = Enqueue});

}  // namespace

extern const CudaKernel* const kSharedPrivate = &kKernel;

}  // namespace histogram::cuda
