#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kValuesPerPass = 8;

// Counters of eight values in each thread's registers, merged in shared memory. blockIdx.y chooses
// the eight: the payload is read once for every eight of the 256 values.
__global__ void RegisterPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kValuesPerPass];
  if (threadIdx.x < kValuesPerPass) counts[threadIdx.x] = 0;
  __syncthreads();
  const uint32_t first_value = blockIdx.y * kValuesPerPass;
  uint32_t mine[kValuesPerPass] = {};
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    const uint32_t value = data[i] - first_value;
#pragma unroll
    for (uint32_t b = 0; b < kValuesPerPass; ++b) mine[b] += value == b ? 1 : 0;
  }
#pragma unroll
  for (uint32_t b = 0; b < kValuesPerPass; ++b) {
    uint32_t warp_sum = mine[b];
    for (uint32_t threads = 16; threads > 0; threads /= 2) {
      warp_sum += __shfl_xor_sync(0xFFFFFFFFU, warp_sum, threads);
    }
    if (threadIdx.x % 32 == 0 && warp_sum != 0) atomicAdd(&counts[b], warp_sum);
  }
  __syncthreads();
  if (threadIdx.x < kValuesPerPass && counts[threadIdx.x] != 0) {
    atomicAdd(&row[first_value + threadIdx.x], counts[threadIdx.x]);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const dim3 blocks(std::min((bytes - 1) / kThreads + 1, launch.device->multiprocessors * 8),
                    kByteValues / kValuesPerPass);
  RegisterPrivateKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "register_private",
     .summary = "counters of eight values in registers, one pass for every eight",
     .enqueue = Enqueue});

}  // namespace

extern const CudaKernel* const kRegisterPrivate = &kKernel;

}  // namespace histogram::cuda
