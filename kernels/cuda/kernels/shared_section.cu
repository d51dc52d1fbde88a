#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kCoarsening = 4;

// A copy of the bins per block in shared memory; each thread takes a few contiguous elements.
__global__ void SharedSectionKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) counts[i] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kThreads * kCoarsening;
  for (uint64_t begin = (uint64_t{blockIdx.x} * kThreads + threadIdx.x) * kCoarsening;
       begin < bytes; begin += stride) {
    const uint64_t end = min(begin + kCoarsening, uint64_t{bytes});
    for (uint64_t i = begin; i < end; ++i) {
      atomicAdd(&counts[data[i]], 1U);
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks =
      std::min((bytes - 1) / (kThreads * kCoarsening) + 1, launch.device->multiprocessors * 2);
  SharedSectionKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "shared_section",
     .summary = "a copy of the bins per block in shared memory, contiguous coarsening",
     .enqueue = Enqueue});

}  // namespace

extern const CudaKernel* const kSharedSection = &kKernel;

}  // namespace histogram::cuda
