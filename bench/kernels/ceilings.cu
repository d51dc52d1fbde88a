#include <algorithm>
#include <chrono>

#include "bench/kernels/ceilings.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"

namespace histogram::bench {
namespace {

constexpr uint32_t kThreads = 1024;

// Reads everything once; writes only if a sum comes out that cannot be known beforehand.
template <uint32_t kLoads>
__global__ void __launch_bounds__(kThreads)
    ReadKernel(const uint4* vectors, uint32_t count, uint32_t* out) {
  const uint32_t stride = gridDim.x * kThreads;
  uint32_t sum = 0;
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  for (; uint64_t{i} + uint64_t{kLoads - 1} * stride < count; i += kLoads * stride) {
    uint4 loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      loaded[j] = cuda::LoadStreaming(vectors + i + j * stride);
    }
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      sum ^= loaded[j].x ^ loaded[j].y ^ loaded[j].z ^ loaded[j].w;
    }
  }
  for (; i < count; i += stride) {
    const uint4 loaded = cuda::LoadStreaming(vectors + i);
    sum ^= loaded.x ^ loaded.y ^ loaded.z ^ loaded.w;
  }
  if (sum == 0x9E3779B9U) *out = sum;
}

__global__ void NullKernel() {}

__global__ void HoldKernel(uint64_t ns) {
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
}

Ceilings::Read BestRead(Harness& harness, uint64_t bytes) {
  auto out = cuda::DeviceBuffer::Make(sizeof(uint32_t));
  Check(out.status());
  const auto count = static_cast<uint32_t>(bytes / 16);
  const uint32_t multiprocessors = harness.traits().multiprocessors;
  const uint64_t step = std::max<uint64_t>(bytes, 32 * kMiB);
  const uint64_t regions = std::max<uint64_t>(1, (kInputBytes - bytes) / step + 1);
  const auto input = [&](int run) {
    return reinterpret_cast<const uint4*>(harness.input() +
                                          (static_cast<uint64_t>(run) % regions) * step);
  };
  const uint32_t once = (count + kThreads * 4 - 1) / (kThreads * 4);
  struct Variant {
    const char* name;
    void (*kernel)(const uint4*, uint32_t, uint32_t*);
    uint32_t blocks;
  };
  const uint32_t once_2 = (count + kThreads * 2 - 1) / (kThreads * 2);
  const Variant variants[] = {
      {"read_persistent_4", ReadKernel<4>, std::min(once, 2 * multiprocessors)},
      {"read_once_4", ReadKernel<4>, once},
      {"read_once_2", ReadKernel<2>, once_2},
  };
  Ceilings::Read best;
  for (const Variant& variant : variants) {
    const double us = harness.MedianUs(31, [&](int run) {
      variant.kernel<<<variant.blocks, kThreads, 0, harness.stream()>>>(input(run), count,
                                                                        out->get<uint32_t>());
      Check(cuda::LaunchStatus(variant.name));
    });
    if (Gbps(bytes, us) > best.gbps) best = {Gbps(bytes, us), variant.name};
  }
  return best;
}

double NullLaunchUs(Harness& harness) {
  std::vector<double> times;
  for (int i = 0; i < 600; ++i) {
    const auto start = std::chrono::steady_clock::now();
    NullKernel<<<1, 1, 0, harness.stream()>>>();
    CheckCuda(cudaStreamSynchronize(harness.stream()), "NullKernel");
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (i >= 100) times.push_back(took.count());
  }
  return Median(times);
}

// Two transfers a clock, over the whole width of the bus.
double MemoryGbps() {
  int device = 0;
  int clock_khz = 0;
  int bus_bits = 0;
  CheckCuda(cudaGetDevice(&device), "device");
  CheckCuda(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device), "memory clock");
  CheckCuda(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device),
            "bus width");
  return 2.0 * clock_khz * 1e3 * bus_bits / 8 / 1e9;
}

}  // namespace

void EnqueueHold(cudaStream_t stream, uint64_t ns) {
  HoldKernel<<<1, 1, 0, stream>>>(ns);
  Check(cuda::LaunchStatus("HoldKernel"));
}

Ceilings MeasureCeilings(Harness& harness, const std::vector<uint64_t>& read_bytes) {
  Ceilings ceilings;
  for (const uint64_t bytes : read_bytes) ceilings.read[bytes] = BestRead(harness, bytes);
  ceilings.memory_gbps = MemoryGbps();
  const uint64_t half = kInputBytes / 2;
  ceilings.copy_gbps = Gbps(half, harness.MedianUs(15, [&](int /*run*/) {
    CheckCuda(cudaMemcpyAsync(harness.input() + half, harness.input(), half,
                              cudaMemcpyDeviceToDevice, harness.stream()),
              "copy");
  }));
  auto pinned = cuda::PinnedBuffer::Make(256 * kMiB);
  Check(pinned.status());
  ceilings.host_to_device_gbps = Gbps(256 * kMiB, harness.MedianUs(15, [&](int /*run*/) {
    CheckCuda(cudaMemcpyAsync(harness.input(), pinned->host(), 256 * kMiB, cudaMemcpyHostToDevice,
                              harness.stream()),
              "host to device");
  }));
  ceilings.null_launch_us = NullLaunchUs(harness);
  return ceilings;
}

}  // namespace histogram::bench
