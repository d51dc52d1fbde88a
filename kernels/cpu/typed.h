// What code that reads typed samples shares. Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_CPU_TYPED_H_
#define HISTOGRAM_KERNELS_CPU_TYPED_H_

#include <cstddef>
#include <cstdint>

namespace histogram::cpu {

// Consecutive samples, at any address.
struct SampleRun {
  const std::byte* samples;
  size_t count;
};

// The most samples that are counted at a time: a kernel's counters are u32.
inline constexpr size_t kSamplesMax = size_t{1} << 31;

// Prefetches the samples 2 KiB after the block. If tables miss the first-level cache, the processor
// does not detect that samples are read in order. A hint: the address may lie outside the samples,
// so it is a number, not a pointer. Counting f32 into 65,536 bins takes 0.8 to 0.9 G samples/s
// without it and 2.4 to 2.6 with it (Zen 5, 2026-11-24).
template <size_t kBlockBytes>
inline void FetchAhead(const std::byte* block) {
#if defined(__GNUC__)
  constexpr size_t kAheadBytes = 2048, kLineBytes = 64;
  const auto address = reinterpret_cast<uintptr_t>(block) + kAheadBytes;
  for (size_t i = 0; i < kBlockBytes; i += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + i));
  }
#endif
}

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_TYPED_H_
