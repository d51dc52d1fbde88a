// The CPU's dispatch table, measured at start.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_
#define HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/registry.h"

namespace histogram::cpu {

inline constexpr uint32_t kTuneMsMax = 150;  // the most time that a start takes for measuring

// A row for each size of payload, of kernels in the registry's order. Those that `tune_ms_max`
// leaves no time for are missing.
std::vector<KernelChoice> MeasureTable(absl::Span<const CpuKernel* const> kernels,
                                       uint32_t tune_ms_max = kTuneMsMax);

// The time of a typed sample: an f32 in one of 2,048 even bins. Takes some tenths of a millisecond.
double MeasureTypedNsPerSample();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_
