#include <algorithm>
#include <array>

#include "kernels/cpu/features.h"
#include "kernels/cpu/typed.h"

namespace histogram::cpu {

// Each is defined in the file of a kernel, and counts where the table below says.
CountTyped CountPatterns, CountTypedAvx512, CountTypedFour;

namespace {

bool Everywhere() { return true; }
bool EveryPlan(const internal::PlanData& /*plan*/) { return true; }

bool IsNarrow(const internal::PlanData& plan) { return !plan.slot_of_pattern.empty(); }

// Types of 32 and 64 bits, and a sample can be in a bin.
[[maybe_unused]] bool IsWide(const internal::PlanData& plan) {
  return SampleBytes(plan.type) > 2 &&
         std::visit([](const auto& bins) { return bins.reached > 0; }, plan.bins);
}

// The same, and it has tables, or edges that a kernel computes.
[[maybe_unused]] bool IsWideWithTablesOrStep(const internal::PlanData& plan) {
  return IsWide(plan) &&
         (plan.has_tables ||
          std::visit([](const auto& bins) { return bins.guess.computes_edges(); }, plan.bins));
}

// IsWide, and the guess is usable.
[[maybe_unused]] bool IsGuess(const internal::PlanData& plan) {
  return IsWide(plan) &&
         std::visit([](const auto& bins) { return bins.guess.usable(); }, plan.bins);
}

[[maybe_unused]] bool IsGuessWithoutLongIntegers(const internal::PlanData& plan) {
  return IsGuess(plan) && (SampleBytes(plan.type) < 8 || KindOf(plan.type) == SampleKind::kFloat);
}

constexpr std::array kKernels = {
    TypedKernel{"typed_scalar", "sample by sample", CountTypedScalar, Everywhere, EveryPlan},
#if defined(__x86_64__) && defined(__GNUC__)
    TypedKernel{"typed_avx2", "a multiply-add for four samples (AVX2)", CountTypedFour, HasAvx2,
                IsGuessWithoutLongIntegers},
    TypedKernel{"typed_avx512", "a multiply-add or a search for eight samples (AVX-512)",
                CountTypedAvx512, HasAvx512Typed, IsWideWithTablesOrStep},
#elif defined(__aarch64__) && defined(__GNUC__)
    TypedKernel{"typed_neon", "a multiply-add for four samples (NEON)", CountTypedFour, Everywhere,
                IsGuess},
#endif
    TypedKernel{"patterns", "counts each value, then folds", CountPatterns, Everywhere, IsNarrow},
};

}  // namespace

std::span<const TypedKernel> TypedKernels() { return kKernels; }

const TypedKernel& FastestTyped(const internal::PlanData& plan) {
  const auto found = std::find_if(kKernels.rbegin(), kKernels.rend(), [&](const TypedKernel& k) {
    return k.supported() && k.counts(plan);
  });
  return *found;  // exists: the first kernel counts every plan everywhere
}

}  // namespace histogram::cpu
