// Finds the least and the greatest sample: each block those of its samples; the last one to finish
// hands over those of all.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/extent.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"
#include "kernels/rounded.h"

namespace histogram::cuda {
namespace {

// Full multiprocessors, with four loads of 16 bytes in flight in each thread. Not measured apart.
constexpr uint32_t kThreads = 512;
constexpr uint32_t kLoads = 4;
constexpr uint32_t kBlocksOfMultiprocessor = 4;

template <typename S>
__global__ void __launch_bounds__(kThreads)
    ExtentKernel(const __grid_constant__ ExtentLaunch launch,
                 const __grid_constant__ Keying<typename S::Compare> keying) {
  using Bits = typename S::Bits;
  using Key = internal::KeyBits<typename S::Compare>;
  Extremes<Key> extremes;
  const auto add = [&](Bits bits) { extremes.Add(ExtentKey(WidenOne<S>(keying, bits))); };
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

AnyTypedBins AnyBinsOf(SampleType type) {
  const bool wide = SampleBytes(type) == 8;
  if (KindOf(type) == SampleKind::kFloat) {
    return wide ? AnyTypedBins(TypedBins<double>()) : TypedBins<float>();
  }
  return wide ? AnyTypedBins(TypedBins<uint64_t>()) : TypedBins<uint32_t>();
}

}  // namespace

double ValueOfExtentKey(uint64_t key, SampleType type) {
  const bool wide = SampleBytes(type) == 8;
  if (KindOf(type) == SampleKind::kFloat && wide) {
    if (key == ~uint64_t{0}) return std::numeric_limits<double>::quiet_NaN();
    return std::bit_cast<double>((key >> 63) != 0 ? key ^ (uint64_t{1} << 63) : ~key);
  }
  if (KindOf(type) == SampleKind::kFloat) {
    const auto narrow = static_cast<uint32_t>(key);
    if (narrow == ~uint32_t{0}) return std::numeric_limits<double>::quiet_NaN();
    return std::bit_cast<float>((narrow >> 31) != 0 ? narrow ^ 0x80000000U : ~narrow);
  }
  if (KeyFlip(type) == 0) return static_cast<double>(key);
  if (wide) return static_cast<double>(static_cast<int64_t>(key ^ KeyFlip(type)));
  return static_cast<double>(key) - 0x1p31;
}

histogram::Extent ToExtent(const Extent& keys, SampleType type) {
  histogram::Extent extent;
  const auto set = [&](auto least, auto greatest) {
    extent.least = internal::Rounded(least, /*up=*/false);
    extent.greatest = internal::Rounded(greatest, /*up=*/true);
  };
  const uint64_t sign = KeyFlip(type);
  if (KindOf(type) == SampleKind::kFloat || SampleBytes(type) < 8) {
    set(ValueOfExtentKey(keys.least, type), ValueOfExtentKey(keys.greatest, type));
  } else if (sign != 0) {
    set(static_cast<int64_t>(keys.least ^ sign), static_cast<int64_t>(keys.greatest ^ sign));
  } else {
    set(keys.least, keys.greatest);
  }
  if (!std::isfinite(extent.least) || !std::isfinite(extent.greatest)) return {.finite = false};
  extent.constant = keys.least == keys.greatest;
  return extent;
}

absl::Status EnqueueExtent(const ExtentLaunch& launch) {
  return VisitSamples(launch.type, AnyBinsOf(launch.type), [&]<typename S>(S, const auto&) {
    constexpr uint64_t kBlockBytes = kThreads * kLoads * 16;
    const uint64_t wanted = launch.count * sizeof(typename S::Bits) / kBlockBytes + 1;
    const uint64_t most = uint64_t{launch.device->multiprocessors} * kBlocksOfMultiprocessor;
    ExtentKernel<S><<<static_cast<uint32_t>(std::min(wanted, most)), kThreads, 0, launch.stream>>>(
        launch, KeyingOf<S>(launch.type));
    return LaunchStatus("extent");
  });
}

}  // namespace histogram::cuda
