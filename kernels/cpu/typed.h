// Kernels that count typed samples under a plan. A new one is one file, its prototype here and one
// line in typed_registry.cc; tests and benchmarks iterate over them.
//
// Thread-safe: constant tables and functions that count on the calling thread.
#ifndef HISTOGRAM_KERNELS_CPU_TYPED_H_
#define HISTOGRAM_KERNELS_CPU_TYPED_H_

#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/plan_data.h"

namespace histogram::cpu {

// Samples that lie one after the other, of any alignment.
struct SampleRun {
  const std::byte* samples;
  size_t count;
};
using SampleRuns = std::span<const SampleRun>;

// Samples of all runs that a kernel counts at a time: its counters are u32.
inline constexpr size_t kSamplesMax = size_t{1} << 31;

// Adds the samples of all runs to `row`: SlotCount of the plan's bins.
// REQUIRES: they are at most kSamplesMax.
using TypedCount = void (*)(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);

inline size_t SamplesOf(SampleRuns runs) {
  size_t count = 0;
  for (const SampleRun& run : runs) count += run.count;
  return count;
}

// Asks for the samples that lie 2 KiB after a block of so many bytes: where tables miss the first
// cache, the processor does not see by itself that samples are read in order. A hint only: the
// address may lie outside of the samples. It is formed as a number, not a pointer.
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
  TypedCount count;
  // Whether this processor and operating system can run it.
  bool (*supported)();
  // Whether it counts samples of that type. The first kernel of all counts every type.
  bool (*counts)(const internal::PlanData& plan);
};

// All kernels; of those that count a plan and are supported the last is the fastest.
std::span<const TypedKernel> TypedKernels();

// The fastest kernel for the plan that this processor runs.
const TypedKernel& FastestTyped(const internal::PlanData& plan);

// What the files of the kernels offer to the registry.
void CountTypedScalar(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);
// Types of 8 and 16 bits: counts each value, then folds.
void CountPatterns(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);
// Types of 32 and 64 bits of which some samples are in bins. REQUIRES: HasAvx512Typed().
void CountTypedAvx512(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);
// Types f32, f64, i32 and u32 whose guess is usable. REQUIRES: HasAvx2().
void CountTypedAvx2(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);
// Types of 32 and 64 bits whose guess is usable. On Arm.
void CountTypedNeon(const internal::PlanData& plan, SampleRuns runs, uint64_t* row);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_TYPED_H_
