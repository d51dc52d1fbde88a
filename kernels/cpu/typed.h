// The kernels that count typed samples under a plan. A new kernel takes one file, its lines in
// typed_registry.cc, and one in kernels/CMakeLists.txt. Tests and benchmarks iterate over all
// kernels.
//
// Thread-safe: constant tables, and functions that count on the calling thread.
#ifndef HISTOGRAM_KERNELS_CPU_TYPED_H_
#define HISTOGRAM_KERNELS_CPU_TYPED_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/plan_data.h"

namespace histogram::cpu {

// Consecutive samples, at any address.
struct SampleRun {
  const std::byte* samples;
  size_t count;
};
using SampleRuns = std::span<const SampleRun>;

// The most samples, of all runs, of one call: a kernel's counters are u32.
inline constexpr size_t kSamplesMax = size_t{1} << 31;

// Adds the samples of all runs to `row`, which has SlotCount(bins of the plan) slots.
// REQUIRES: SamplesOf(runs) <= kSamplesMax.
using CountTyped = void(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);

inline size_t SamplesOf(SampleRuns runs) {
  size_t count = 0;
  for (const SampleRun& run : runs) count += run.count;
  return count;
}

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

struct TypedKernel {
  std::string_view name;
  std::string_view summary;
  CountTyped* count;
  // Whether this processor and operating system can run it.
  bool (*supported)();
  // Whether it counts under this plan. The first kernel counts under every plan.
  bool (*counts)(const internal::PlanData& plan);
};

// All kernels. Of those that count a plan and are supported, the last is the fastest.
std::span<const TypedKernel> TypedKernels();

// The fastest kernel for the plan that this processor runs.
const TypedKernel& FastestTyped(const internal::PlanData& plan);

// Counts under every plan. What other kernels fall back to.
CountTyped CountTypedScalar;

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_TYPED_H_
