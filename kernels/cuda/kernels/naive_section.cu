#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kSectionBytesMin = 16;

// A contiguous section a thread, one global atomic an element.
__global__ void NaiveSectionKernelOf(const uint8_t* data, uint32_t bytes, uint32_t section_bytes,
                                     uint32_t* row) {
  __syncthreads();
  const uint64_t thread = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const uint64_t begin = thread * section_bytes;
  const uint64_t end = min(begin + section_bytes, uint64_t{bytes});
  for (uint64_t i = begin; i < end; ++i) {
    atomicAdd(&row[data[i]], 1U);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  const uint32_t threads_max = launch.device->multiprocessors * 2048;
  const uint32_t section_bytes = std::max(kSectionBytesMin, (bytes - 1) / threads_max + 1);
  const uint32_t threads = (bytes - 1) / section_bytes + 1;
  const uint32_t blocks = (threads - 1) / kThreads + 1;
  NaiveSectionKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, section_bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "naive_section",
     .summary = "a contiguous section a thread, atomics in global memory",
     .enqueue = Enqueue,
     .slow = true});

}  // namespace

extern const CudaKernel* const kNaiveSection = &kKernel;

}  // namespace histogram::cuda
