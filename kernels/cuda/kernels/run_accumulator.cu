#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 1024;

// A copy of the bins per block in shared memory; each thread adds up a run of equal values before
// it touches the copy.
__global__ void RunAccumulatorKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) counts[i] = 0;
  __syncthreads();
  uint32_t run_value = 0, run = 0;
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    const uint32_t value = data[i];
    if (value == run_value) {
      ++run;
      continue;
    }
    if (run != 0) atomicAdd(&counts[run_value], run);
    run_value = value;
    run = 1;
  }
  if (run != 0) atomicAdd(&counts[run_value], run);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kThreads) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t blocks = std::min((bytes - 1) / kThreads + 1, launch.device->multiprocessors * 2);
  RunAccumulatorKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "run_accumulator",
     .summary = "runs of equal values added up per thread before the shared copy",
     .enqueue = Enqueue});

}  // namespace

extern const CudaKernel* const kRunAccumulator = &kKernel;

}  // namespace histogram::cuda
