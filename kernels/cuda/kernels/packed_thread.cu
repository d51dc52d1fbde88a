#include <algorithm>

#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 64;
constexpr uint32_t kWords = kByteValues / 4;
constexpr uint32_t kFlushBytes = 252;  // a multiple of four below 256: an 8-bit counter cannot wrap

// 8-bit counters of every value for every thread, four to a word, in shared memory: no atomics.
// Collected before any can wrap.
__global__ void PackedThreadKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  // [word of four values][thread]: a thread stays in its own bank whatever it counts.
  __shared__ uint32_t packed[kWords * kThreads];
  uint8_t* const mine = reinterpret_cast<uint8_t*>(packed + threadIdx.x);
  for (uint32_t i = threadIdx.x; i < kWords * kThreads; i += kThreads) packed[i] = 0;
  __syncthreads();
  uint32_t totals[4] = {};  // of the four values of word threadIdx.x
  const uint64_t tile_bytes = uint64_t{kThreads} * kFlushBytes;
  for (uint64_t tile = uint64_t{blockIdx.x} * tile_bytes; tile < bytes;
       tile += uint64_t{gridDim.x} * tile_bytes) {
    const uint64_t end = min(tile + tile_bytes, uint64_t{bytes});
    for (uint64_t i = tile + threadIdx.x; i < end; i += kThreads) {
      const uint32_t value = data[i];
      ++mine[(value / 4) * kThreads * 4 + value % 4];
    }
    __syncthreads();
    for (uint32_t i = 0; i < kThreads; ++i) {
      // Starts at another column in each thread, so that a warp reads 32 banks.
      uint32_t& word = packed[threadIdx.x * kThreads + (i + threadIdx.x) % kThreads];
      const uint32_t counters = word;
      word = 0;
      totals[0] += counters & 0xFF;
      totals[1] += (counters >> 8) & 0xFF;
      totals[2] += (counters >> 16) & 0xFF;
      totals[3] += counters >> 24;
    }
    __syncthreads();
  }
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (totals[i] != 0) atomicAdd(&row[threadIdx.x * 4 + i], totals[i]);
  }
}

cudaError_t Enqueue(const Launch& launch, const uint8_t* data, uint32_t bytes, uint32_t* row) {
  static_assert(kThreads == kWords, "thread t collects word t");
  const uint64_t tile_bytes = uint64_t{kThreads} * kFlushBytes;
  const auto tiles = static_cast<uint32_t>((bytes - 1) / tile_bytes + 1);
  const uint32_t blocks = std::min(tiles, launch.device->multiprocessors * 12);
  PackedThreadKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
  return cudaGetLastError();
}

constinit const PerPayloadKernel kKernel(
    {.name = "packed_thread",
     .summary = "8-bit counters per thread packed in shared memory, flushed before they wrap",
     .enqueue = Enqueue});

}  // namespace

extern const CudaKernel* const kPackedThread = &kKernel;

}  // namespace histogram::cuda
