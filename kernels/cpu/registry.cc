#include "kernels/cpu/registry.h"

#include <algorithm>

#include "kernels/cpu/features.h"

namespace histogram::cpu {

// Each is defined in the file of a kernel.
CountSamples CountScalar, CountRuns8, CountAvx512;
CountSamples CountPatterns, CountTypedAvx512, CountTypedFour, CountTypedScalar;

namespace {

bool Everywhere() { return true; }

bool EveryPlan(const internal::PlanData& /*plan*/) { return true; }

bool IsNarrow(const internal::PlanData& plan) { return !plan.slot_of_pattern.empty(); }

// Types of 32 and 64 bits, a sample can be in a bin, and there are tables, or edges that a kernel
// computes.
[[maybe_unused]] bool IsWide(const internal::PlanData& plan) {
  return SampleBytes(plan.type) > 2 &&
         std::visit(
             [&plan](const auto& bins) {
               return bins.reached > 0 && (plan.has_tables || bins.guess.computes_edges());
             },
             plan.bins);
}

// The same types, and the guess is usable.
[[maybe_unused]] bool IsGuess(const internal::PlanData& plan) {
  return SampleBytes(plan.type) > 2 &&
         std::visit([](const auto& bins) { return bins.guess.usable(); }, plan.bins);
}

constexpr CpuKernel kByteKernels[] = {
    {"scalar", "one byte at a time into one table", CountScalar, Everywhere, EveryPlan},
    {"runs8", "eight bytes at a time into eight tables; a run of 256 equal bytes in one addition",
     CountRuns8, Everywhere, EveryPlan, 2048},
#if defined(__x86_64__)
    {"avx512", "positional population count of one-hot words; runs in one addition", CountAvx512,
     HasAvx512Counting, EveryPlan, 512},
#endif
};

constexpr CpuKernel kTypedKernels[] = {
    {"typed_scalar", "sample by sample", CountTypedScalar, Everywhere, EveryPlan},
#if defined(__x86_64__)
    {"typed_avx2", "a multiply-add for four samples (AVX2)", CountTypedFour, HasAvx2, IsGuess},
    {"typed_avx512", "a multiply-add or a search for eight samples (AVX-512)", CountTypedAvx512,
     HasAvx512Typed, IsWide},
#elif defined(__aarch64__)
    {"typed_neon", "a multiply-add for four samples (NEON)", CountTypedFour, Everywhere, IsGuess},
#endif
    {"patterns", "counts each value, then folds", CountPatterns, Everywhere, IsNarrow},
};

}  // namespace

std::span<const CpuKernel> ByteKernels() { return kByteKernels; }
std::span<const CpuKernel> TypedKernels() { return kTypedKernels; }

const CpuKernel& DefaultKernel(const internal::PlanData& plan, uint64_t bytes) {
  const std::span<const CpuKernel> kernels = plan.counts_values ? ByteKernels() : TypedKernels();
  return *std::find_if(kernels.rbegin(), kernels.rend(), [&](const CpuKernel& kernel) {
    return kernel.bytes_min <= bytes && kernel.counts(plan) && kernel.supported();
  });  // there is one: the first
}

}  // namespace histogram::cpu
