// Counts the interleaved channels of samples of 8 bits: a table for each channel (byte_tables.cuh).
//
// The distance of a thread's vectors is a multiple of the channels, so that a byte of a vector is
// always of the same channel.
#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/byte_tables.cuh"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// As typed_table.cu has them. 3 and 4 channels reach 96 % of the read ceiling (H200, d727295);
// other numbers were not measured.
constexpr uint32_t kThreads = 1024;
constexpr uint32_t kLoads = 4;

template <uint32_t kChannels, uint32_t kFirst>
__device__ inline void AddWord(uint32_t word, const uint32_t (&bases)[kChannels]) {
  AddByte<0>(word, bases[kFirst % kChannels], 1);
  AddByte<1>(word, bases[(kFirst + 1) % kChannels], 1);
  AddByte<2>(word, bases[(kFirst + 2) % kChannels], 1);
  AddByte<3>(word, bases[(kFirst + 3) % kChannels], 1);
}

template <uint32_t kChannels>
__global__ void __launch_bounds__(kThreads, 1)
    ByteChannelsKernel(const __grid_constant__ RowsLaunch launch, uint32_t bins,
                       const uint32_t* slot_of) {
  CheckByteTables();
  constexpr uint32_t kBytes = (kChannels + 1) / 2 * kByteTablePairBytes;
  for (uint32_t i = threadIdx.x; i < kBytes / 16; i += kThreads) {
    reinterpret_cast<uint4*>(byte_tables)[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
  const uint32_t thread = threadIdx.x % 32;
  const auto* const samples = static_cast<const uint8_t*>(launch.samples);
  const uint64_t bytes = launch.pixels * kChannels;
  const uint64_t head = min(uint64_t{SamplesToVector(samples)}, bytes);
  const uint64_t first = head + 16 * (uint64_t{blockIdx.x} * kThreads + threadIdx.x);
  uint32_t bases[kChannels];
#pragma unroll
  for (uint32_t k = 0; k < kChannels; ++k) {
    bases[k] = ByteTableBase(static_cast<uint32_t>((first + k) % kChannels), thread);
  }
  ForSamples<kThreads, kLoads>(
      samples, bytes,
      [&](uint4 vector) {
        AddWord<kChannels, 0>(vector.x, bases);
        AddWord<kChannels, 4>(vector.y, bases);
        AddWord<kChannels, 8>(vector.z, bases);
        AddWord<kChannels, 12>(vector.w, bases);
      },
      [&](uint8_t byte, uint64_t at) {
        AddByte<0>(byte, ByteTableBase(static_cast<uint32_t>(at % kChannels), thread), 1);
      });
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kChannels * kByteValues; i += kThreads) {
    const uint32_t channel = i / kByteValues, value = i % kByteValues;
    const auto* const row = reinterpret_cast<const uint32_t*>(
        byte_tables + ByteTableBase(channel, 0) + value * kByteValues);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < 32; ++k) sum += row[(k + thread) % 32];
    if (sum == 0) continue;
    const uint32_t slot = slot_of[value];
    atomicAdd(slot < bins ? &launch.counts[uint64_t{channel} * bins + slot]
                          : &launch.outside[channel * kOutsideSlots + (slot - bins)],
              sum);
  }
}

template <uint32_t kChannels>
absl::Status Enqueue(const RowsLaunch& launch, uint32_t bins, const uint32_t* slot_of) {
  constexpr uint32_t kBytes = (kChannels + 1) / 2 * kByteTablePairBytes;
  auto* const kernel = ByteChannelsKernel<kChannels>;
  HISTOGRAM_RETURN_IF_ERROR(AllowShared(kernel, kBytes));
  constexpr uint64_t kPeriod = kChannels / std::gcd(kChannels, 16U);
  const uint64_t most = launch.device->multiprocessors;
  const uint64_t wanted = std::min(launch.pixels * kChannels / (kThreads * 16) + 1, most);
  const uint64_t blocks = std::max(kPeriod, wanted / kPeriod * kPeriod);
  kernel<<<static_cast<uint32_t>(blocks), kThreads, kBytes, launch.stream>>>(launch, bins, slot_of);
  return LaunchStatus("byte_channels");
}

}  // namespace

absl::Status EnqueueByteChannels(const RowsLaunch& launch, uint32_t bins, const uint32_t* slot_of) {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
      launch.counts, 0, uint64_t{launch.channels} * bins * sizeof(uint32_t), launch.stream));
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
      launch.outside, 0, launch.channels * kOutsideSlots * sizeof(uint32_t), launch.stream));
  constexpr auto kEnqueue = std::array{Enqueue<2>, Enqueue<3>, Enqueue<4>, Enqueue<5>, Enqueue<6>};
  return kEnqueue[launch.channels - 2](launch, bins, slot_of);
}

}  // namespace histogram::cuda
