// The strategies of the literature, and CUB's kernel as the baseline: a payload a launch.
#include <algorithm>
#include <cub/device/device_histogram.cuh>
#include <limits>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {
namespace {

// Threads of a block.
constexpr uint32_t kSmallBlock = 256, kLargeBlock = 1024;
constexpr uint32_t kSectionBytesMin = 16;        // naive_section
constexpr uint32_t kCopiesOfMultiprocessor = 2;  // global_private
constexpr uint32_t kCoarsening = 4;              // shared_section
constexpr uint32_t kValuesPerPass = 8;           // register_private
// packed_thread: words of four counters; thread t collects word t.
constexpr uint32_t kWords = kByteValues / 4, kPackedThreads = kWords;
// A multiple of four below 256: an 8-bit counter cannot wrap.
constexpr uint32_t kFlushBytes = 252;

// A payload of a launch.
struct Payload {
  Payload(const Launch& launch, size_t i)
      : data(launch.input + launch.payloads[i].offset),
        bytes(launch.payloads[i].bytes),
        row(launch.rows + i * kByteValues) {}
  const uint8_t* data;
  uint32_t bytes;
  uint32_t* row;
};

using Kernel = void (*)(const uint8_t* data, uint32_t bytes, uint32_t* row);

// A block takes kBlockBytes at a time; each of the passes has at most so many blocks.
template <Kernel kKernel, uint32_t kThreads, uint32_t kBlockBytes, uint32_t kBlocksOfMultiprocessor,
          uint32_t kPasses = 1>
cudaError_t OnGrid(const Launch& launch, size_t i) {
  const Payload payload(launch, i);
  const uint64_t most = uint64_t{launch.device->multiprocessors} * kBlocksOfMultiprocessor;
  const auto blocks =
      static_cast<uint32_t>(std::min(uint64_t{(payload.bytes - 1) / kBlockBytes + 1}, most));
  kKernel<<<dim3(blocks, kPasses), kThreads, 0, launch.stream>>>(payload.data, payload.bytes,
                                                                 payload.row);
  return cudaGetLastError();
}

// One thread an element, one global atomic each.
__global__ void NaiveElementKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __syncthreads();
  const uint64_t i = uint64_t{blockIdx.x} * kSmallBlock + threadIdx.x;
  if (i >= bytes) return;
  atomicAdd(&row[data[i]], 1U);
}

// A contiguous section a thread, one global atomic an element.
__global__ void NaiveSectionKernelOf(const uint8_t* data, uint32_t bytes, uint32_t section_bytes,
                                     uint32_t* row) {
  __syncthreads();
  const uint64_t thread = uint64_t{blockIdx.x} * kSmallBlock + threadIdx.x;
  const uint64_t begin = thread * section_bytes;
  const uint64_t end = min(begin + section_bytes, uint64_t{bytes});
  for (uint64_t i = begin; i < end; ++i) {
    atomicAdd(&row[data[i]], 1U);
  }
}

cudaError_t EnqueueSections(const Launch& launch, size_t i) {
  const auto [data, bytes, row] = Payload(launch, i);
  const uint32_t threads_max = launch.device->multiprocessors * 2048;
  const uint32_t section_bytes = std::max(kSectionBytesMin, (bytes - 1) / threads_max + 1);
  const uint32_t threads = (bytes - 1) / section_bytes + 1;
  const uint32_t blocks = (threads - 1) / kSmallBlock + 1;
  NaiveSectionKernelOf<<<blocks, kSmallBlock, 0, launch.stream>>>(data, bytes, section_bytes, row);
  return cudaGetLastError();
}

// Grid-stride over the elements, one global atomic each.
__global__ void NaiveInterleavedKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kSmallBlock;
  for (uint64_t i = uint64_t{blockIdx.x} * kSmallBlock + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&row[data[i]], 1U);
  }
}

// A copy of the bins per block in global memory, merged by the block at its end.
__global__ void GlobalPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row,
                                      uint32_t* copies) {
  uint32_t* const copy = copies + uint64_t{blockIdx.x} * kByteValues;
  if (threadIdx.x < kByteValues) copy[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kLargeBlock;
  for (uint64_t i = uint64_t{blockIdx.x} * kLargeBlock + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&copy[data[i]], 1U);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x < kByteValues) {
    const uint32_t count = __ldcg(&copy[threadIdx.x]);
    if (count != 0) atomicAdd(&row[threadIdx.x], count);
  }
}

uint64_t CopiesBytes(const DeviceTraits& device, uint32_t /*payload_bytes_max*/) {
  return uint64_t{device.multiprocessors} * kCopiesOfMultiprocessor * kRowBytes;
}

cudaError_t EnqueueCopies(const Launch& launch, size_t i) {
  const auto [data, bytes, row] = Payload(launch, i);
  const uint32_t blocks = std::min((bytes - 1) / kLargeBlock + 1,
                                   launch.device->multiprocessors * kCopiesOfMultiprocessor);
  GlobalPrivateKernelOf<<<blocks, kLargeBlock, 0, launch.stream>>>(
      data, bytes, row, static_cast<uint32_t*>(launch.scratch));
  return cudaGetLastError();
}

// A copy of the bins per block in shared memory, grid-stride over the elements.
__global__ void SharedPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) counts[i] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kLargeBlock;
  for (uint64_t i = uint64_t{blockIdx.x} * kLargeBlock + threadIdx.x; i < bytes; i += stride) {
    atomicAdd(&counts[data[i]], 1U);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

// A copy of the bins per block in shared memory; each thread takes a few contiguous elements.
__global__ void SharedSectionKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) counts[i] = 0;
  __syncthreads();
  const uint64_t stride = uint64_t{gridDim.x} * kLargeBlock * kCoarsening;
  for (uint64_t begin = (uint64_t{blockIdx.x} * kLargeBlock + threadIdx.x) * kCoarsening;
       begin < bytes; begin += stride) {
    const uint64_t end = min(begin + kCoarsening, uint64_t{bytes});
    for (uint64_t i = begin; i < end; ++i) {
      atomicAdd(&counts[data[i]], 1U);
    }
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

// Counters of eight values in each thread's registers, merged in shared memory. blockIdx.y chooses
// the eight: the payload is read once for every eight of the 256 values.
__global__ void RegisterPrivateKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kValuesPerPass];
  if (threadIdx.x < kValuesPerPass) counts[threadIdx.x] = 0;
  __syncthreads();
  const uint32_t first_value = blockIdx.y * kValuesPerPass;
  uint32_t mine[kValuesPerPass] = {};
  const uint64_t stride = uint64_t{gridDim.x} * kSmallBlock;
  for (uint64_t i = uint64_t{blockIdx.x} * kSmallBlock + threadIdx.x; i < bytes; i += stride) {
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

// A copy of the bins per block in shared memory; each thread adds up a run of equal values before
// it touches the copy.
__global__ void RunAccumulatorKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __shared__ uint32_t counts[kByteValues];
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) counts[i] = 0;
  __syncthreads();
  uint32_t run_value = 0, run = 0;
  const uint64_t stride = uint64_t{gridDim.x} * kLargeBlock;
  for (uint64_t i = uint64_t{blockIdx.x} * kLargeBlock + threadIdx.x; i < bytes; i += stride) {
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
  for (uint32_t i = threadIdx.x; i < kByteValues; i += kLargeBlock) {
    if (counts[i] != 0) atomicAdd(&row[i], counts[i]);
  }
}

// 8-bit counters of every value for every thread, four to a word, in shared memory: no atomics.
// Collected before any can wrap.
__global__ void PackedThreadKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  // [word of four values][thread]: a thread stays in its own bank whatever it counts.
  __shared__ uint32_t packed[kWords * kPackedThreads];
  uint8_t* const mine = reinterpret_cast<uint8_t*>(packed + threadIdx.x);
  for (uint32_t i = threadIdx.x; i < kWords * kPackedThreads; i += kPackedThreads) packed[i] = 0;
  __syncthreads();
  uint32_t totals[4] = {};  // of the four values of word threadIdx.x
  const uint64_t tile_bytes = uint64_t{kPackedThreads} * kFlushBytes;
  for (uint64_t tile = uint64_t{blockIdx.x} * tile_bytes; tile < bytes;
       tile += uint64_t{gridDim.x} * tile_bytes) {
    const uint64_t end = min(tile + tile_bytes, uint64_t{bytes});
    for (uint64_t i = tile + threadIdx.x; i < end; i += kPackedThreads) {
      const uint32_t value = data[i];
      ++mine[(value / 4) * kPackedThreads * 4 + value % 4];
    }
    __syncthreads();
    for (uint32_t i = 0; i < kPackedThreads; ++i) {
      // Starts at another column in each thread, so that a warp reads 32 banks.
      uint32_t& word = packed[threadIdx.x * kPackedThreads + (i + threadIdx.x) % kPackedThreads];
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

cudaError_t CountEven(void* temporary, size_t& temporary_bytes, const uint8_t* data, uint32_t bytes,
                      uint32_t* row, cudaStream_t stream) {
  const auto count = [&](auto samples) {
    return cub::DeviceHistogram::HistogramEven(temporary, temporary_bytes, data, row,
                                               static_cast<int>(kByteValues) + 1, 0,
                                               static_cast<int>(kByteValues), samples, stream);
  };
  // 32-bit offsets are faster and do where they reach.
  if (bytes <= std::numeric_limits<int>::max()) return count(static_cast<int>(bytes));
  return count(static_cast<int64_t>(bytes));
}

uint64_t CubScratchBytes(const DeviceTraits& /*device*/, uint32_t payload_bytes_max) {
  size_t bytes = 0;
  const cudaError_t error =
      CountEven(nullptr, bytes, nullptr, std::max(1U, payload_bytes_max), nullptr, nullptr);
  return error == cudaSuccess ? bytes : 0;
}

cudaError_t EnqueueCub(const Launch& launch, size_t i) {
  const auto [data, bytes, row] = Payload(launch, i);
  if (bytes == 0) return cudaMemsetAsync(row, 0, kRowBytes, launch.stream);
  size_t needed = 0;
  const cudaError_t error = CountEven(nullptr, needed, data, bytes, row, launch.stream);
  if (error != cudaSuccess) return error;
  return CountEven(launch.scratch, needed, data, bytes, row, launch.stream);
}

}  // namespace

absl::Span<const CudaKernel> Literature() {
  static constexpr CudaKernel kMethods[] = {
      {.name = "naive_element",
       .summary = "one element a thread, atomics in global memory",
       .enqueue = OnGrid<NaiveElementKernelOf, kSmallBlock, kSmallBlock, UINT32_MAX>,
       .adds_to_rows = true,
       .slow = true},
      {.name = "naive_section",
       .summary = "a contiguous section a thread, atomics in global memory",
       .enqueue = EnqueueSections,
       .adds_to_rows = true,
       .slow = true},
      {.name = "naive_interleaved",
       .summary = "neighbouring threads read neighbouring elements, atomics in global memory",
       .enqueue = OnGrid<NaiveInterleavedKernelOf, kSmallBlock, kSmallBlock, 8>,
       .adds_to_rows = true,
       .slow = true},
      {.name = "global_private",
       .summary = "a copy of the bins per block in global memory",
       .enqueue = EnqueueCopies,
       .adds_to_rows = true,
       .slow = true,
       .scratch_bytes = CopiesBytes},
      {.name = "shared_private",
       .summary = "a copy of the bins per block in shared memory, interleaved",
       .enqueue = OnGrid<SharedPrivateKernelOf, kLargeBlock, kLargeBlock, 2>,
       .adds_to_rows = true},
      {.name = "shared_section",
       .summary = "a copy of the bins per block in shared memory, contiguous coarsening",
       .enqueue = OnGrid<SharedSectionKernelOf, kLargeBlock, kLargeBlock * kCoarsening, 2>,
       .adds_to_rows = true},
      {.name = "register_private",
       .summary = "counters of eight values in registers, one pass for every eight",
       .enqueue = OnGrid<RegisterPrivateKernelOf, kSmallBlock, kSmallBlock, 8,
                         kByteValues / kValuesPerPass>,
       .adds_to_rows = true},
      {.name = "run_accumulator",
       .summary = "runs of equal values added up per thread before the shared copy",
       .enqueue = OnGrid<RunAccumulatorKernelOf, kLargeBlock, kLargeBlock, 2>,
       .adds_to_rows = true},
      {.name = "packed_thread",
       .summary = "8-bit counters per thread packed in shared memory, flushed before they wrap",
       .enqueue = OnGrid<PackedThreadKernelOf, kPackedThreads, kPackedThreads * kFlushBytes, 12>,
       .adds_to_rows = true},
      {.name = "cub_histogram",
       .summary = "cub::DeviceHistogram::HistogramEven",
       .enqueue = EnqueueCub,
       .scratch_bytes = CubScratchBytes},
  };
  return kMethods;
}

}  // namespace histogram::cuda
