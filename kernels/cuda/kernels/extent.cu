// Finds the least and the greatest sample: each block those of its samples; the last one to finish
// hands over those of all.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/extent.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"
#include "kernels/rounded.h"
#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

// Full multiprocessors, with four loads of 16 bytes in flight in each thread. Not measured apart.
constexpr uint32_t kThreads = 512;
constexpr uint32_t kLoads = 4;
constexpr uint32_t kBlocksOfMultiprocessor = 4;

template <typename S>
__global__ void __launch_bounds__(kThreads)
    ExtentKernel(const __grid_constant__ ExtentLaunch launch) {
  using Bits = typename S::Bits;
  using Key = internal::KeyBits<typename S::Compare>;
  Extremes<Key> extremes;
  const auto add = [&](Bits bits) { extremes.Add(ExtentKey(S::Widen(bits))); };
  ForSamples<kThreads, kLoads>(
      static_cast<const Bits*>(launch.samples), launch.count,
      [&](const uint4& vector) { ForVector<Bits>(vector, add); },
      [&](Bits bits, uint64_t) { add(bits); });
  extremes = OfBlock<kThreads>(extremes);
  if (threadIdx.x != 0) return;
  auto* const words = reinterpret_cast<unsigned long long*>(launch.words);
  atomicMax(&words[0], static_cast<unsigned long long>(extremes.most_below));
  atomicMax(&words[1], static_cast<unsigned long long>(extremes.greatest));
  __threadfence();
  if (atomicAdd(&words[2], 1ULL) != gridDim.x - 1) return;
  __threadfence();
  launch.extent->least = static_cast<Key>(~static_cast<Key>(__ldcg(&words[0])));
  launch.extent->greatest = __ldcg(&words[1]);
  for (uint32_t i = 0; i < kExtentWords; ++i) words[i] = 0;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(launch.flag) = launch.value;
}

}  // namespace

// The greatest key of floats is that of a NaN.
double ValueOfExtentKey(uint64_t key, SampleType type) {
  return internal::VisitSample(type, [key]<typename S>(S) {
    using C = typename S::Compare;
    return static_cast<double>(internal::OfKey<C>(static_cast<internal::KeyBits<C>>(key)));
  });
}

histogram::Extent ToExtent(const Extent& keys, SampleType type) {
  return internal::VisitSample(type, [&keys]<typename S>(S) -> histogram::Extent {
    using C = typename S::Compare;
    using Key = internal::KeyBits<C>;
    const C least = internal::OfKey<C>(static_cast<Key>(keys.least));
    const C greatest = internal::OfKey<C>(static_cast<Key>(keys.greatest));
    const histogram::Extent extent = {.least = internal::Rounded(least, /*up=*/false),
                                      .greatest = internal::Rounded(greatest, /*up=*/true),
                                      .constant = least == greatest};
    const bool finite = std::isfinite(extent.least) && std::isfinite(extent.greatest);
    return finite ? extent : histogram::Extent{.finite = false};
  });
}

absl::Status EnqueueExtent(const ExtentLaunch& launch) {
  return internal::VisitSample(launch.type, [&]<typename Sample>(Sample) {
    using S = OnDevice<Sample>;
    constexpr uint64_t kBlockBytes = kThreads * kLoads * 16;
    const uint64_t wanted = launch.count * sizeof(typename S::Bits) / kBlockBytes + 1;
    const uint64_t most = uint64_t{launch.device->multiprocessors} * kBlocksOfMultiprocessor;
    const auto blocks = static_cast<uint32_t>(std::min(wanted, most));
    ExtentKernel<S><<<blocks, kThreads, 0, launch.stream>>>(launch);
    return LaunchStatus("extent");
  });
}

}  // namespace histogram::cuda
