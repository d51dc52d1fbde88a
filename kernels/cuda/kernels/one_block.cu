// Our kernel for a lone small payload: least time from launch to flag, not most bytes a second.
//
// One block counts in a table of columns (device.cuh) and writes the row itself, so that nothing
// has to meet in global memory. The launch asks at once for everything that it needs of slow
// (mapped host) memory. With Launch::readable_bytes the payload's loads start before the
// descriptor, which has its length, is there. Bytes beyond the end are read and not counted.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"

namespace histogram::cuda {
namespace {

// All of 64 KiB is in flight at once: the most of this kernel's ladder. Not measured apart.
constexpr uint32_t kThreads = Columns::kThreads;
constexpr uint32_t kLoads = 4;  // in flight in each thread

struct Arguments {
  const uint8_t* data;
  const PayloadDescriptor* payload;
  uint32_t readable_vectors;  // may be loaded before the length is known
  uint32_t* row;
  uint32_t* flag;  // may be null
  const BatchHeader* header;
};

// Counts the first `bytes` bytes of the vector.
__device__ inline void CountPart(const Columns& columns, const uint4& vector, uint32_t bytes) {
  if (bytes >= 16) return CountVector(columns, vector);
  // A loop of few instructions: one vector of a payload comes here.
  uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll 1
  for (uint32_t i = 0; i < bytes; ++i) {
    columns.CountByte(words[0] & 0xFF);
    words[0] = __funnelshift_r(words[0], words[1], 8);
    words[1] = __funnelshift_r(words[1], words[2], 8);
    words[2] = __funnelshift_r(words[2], words[3], 8);
    words[3] >>= 8;
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    OneBlockKernelOf(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) uint8_t table[];
  const Columns columns(table);
  const auto* const vectors = reinterpret_cast<const uint4*>(args.data);
  uint4 loaded[kLoads];
#pragma unroll
  for (uint32_t j = 0; j < kLoads; ++j) {
    const uint32_t i = j * kThreads + threadIdx.x;
    if (i < args.readable_vectors) loaded[j] = LoadStreaming(vectors + i);
  }
  // One thread a warp: the fewer requests go to host memory, the better.
  uint32_t bytes = 0, flag_value = 0;
  if (threadIdx.x % 32 == 0) {
    bytes = args.payload->bytes;
    flag_value = args.header->flag_value;
  }
  columns.Clear();
  bytes = __shfl_sync(kAllThreads, bytes, 0);
  flag_value = __shfl_sync(kAllThreads, flag_value, 0);
  __syncthreads();

#pragma unroll
  for (uint32_t j = 0; j < kLoads; ++j) {
    const uint32_t i = j * kThreads + threadIdx.x;
    if (i >= args.readable_vectors || i * 16 >= bytes) continue;
    CountPart(columns, loaded[j], bytes - i * 16);
  }
  // What was not loaded ahead: byte by byte, for payloads that are larger or not aligned.
  for (uint64_t i = uint64_t{min(args.readable_vectors, kLoads * kThreads)} * 16 + threadIdx.x;
       i < bytes; i += kThreads) {
    columns.CountByte(LoadByteStreaming(args.data + i));
  }

  const uint32_t* const sums = columns.Sums();
  // One warp writes the row and then the flag: its own fence orders the two.
  if (threadIdx.x >= 32) return;
  for (uint32_t i = 0; i < 2; ++i) {
    reinterpret_cast<uint4*>(args.row)[i * 32 + threadIdx.x] =
        reinterpret_cast<const uint4*>(sums)[i * 32 + threadIdx.x];
  }
  if (args.flag == nullptr) return;
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x == 0) *static_cast<volatile uint32_t*>(args.flag) = flag_value;
}

cudaError_t Enqueue(const Launch& launch, size_t i) {
  const PayloadDescriptor& payload = launch.payloads[i];
  const bool is_last = i + 1 == launch.payloads.size();
  const uint8_t* const data = launch.input + payload.offset;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  const uint32_t readable = std::max(launch.readable_bytes, payload.bytes) / 16;
  const Arguments args = {
      .data = data,
      .payload = reinterpret_cast<const PayloadDescriptor*>(launch.header + 1) + i,
      .readable_vectors = aligned ? std::min(readable, kLoads * kThreads) : 0,
      .row = launch.rows + i * kByteValues,
      .flag = is_last ? launch.flag : nullptr,
      .header = launch.header,
  };
  OneBlockKernelOf<<<1, kThreads, Columns::kBytes, launch.stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

extern const CudaKernel kOneBlock = {
    .name = "one_block",
    .summary = "a lone small payload in one block, its loads started before its length is known",
    .enqueue = Enqueue,
    .has_flag = true,
    .ladder = Ladder::kByBytes,
    .slow = true,
    .prepare = [](const DeviceTraits& /*device*/) {
      return AllowShared(OneBlockKernelOf, Columns::kBytes);
    }};

}  // namespace histogram::cuda
