#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// One thread an element, one global atomic each.
__global__ void NaiveElementKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __syncthreads();
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= bytes) return;
  atomicAdd(&row[data[i]], 1U);
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks = (bytes - 1) / kThreads + 1;
  NaiveElementKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "naive_element",
     .summary = "one element a thread, atomics in global memory",
     .enqueue = Enqueue,
     .slow = true});

}  // namespace

extern const CudaKernel* const kNaiveElement = &kKernel;

}  // namespace histogram::cuda
