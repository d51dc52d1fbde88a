#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// Grid-stride over the elements, one global atomic each.
__global__ void NaiveInterleavedKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&row[data[i]], 1U);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks = std::min((bytes - 1) / kThreads + 1, launch.device->multiprocessors * 8);
  NaiveInterleavedKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "naive_interleaved",
     .summary = "neighbouring threads read neighbouring elements, atomics in global memory",
     .enqueue = Enqueue,
     .slow = true});

}  // namespace

extern const CudaKernel* const kNaiveInterleaved = &kKernel;

}  // namespace histogram::cuda
