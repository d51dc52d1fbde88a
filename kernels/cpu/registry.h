// The CPU kernels in this build. A new kernel takes one file, its lines in registry.cc, and one in
// kernels/CMakeLists.txt. Tests, benchmarks and tuner iterate over all kernels.
//
// Thread-safe: constant tables, and functions that count on the calling thread.
#ifndef HISTOGRAM_KERNELS_CPU_REGISTRY_H_
#define HISTOGRAM_KERNELS_CPU_REGISTRY_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/plan_data.h"
#include "kernels/workload.h"

namespace histogram::cpu {

// Adds the samples in the fragments to the plan's counters. Fragments may be empty, of any length
// and at any address. REQUIRES: each holds whole samples; together they are at most kSamplesMax
// (counters.h).
using CountSamples = void(const internal::PlanData& plan, std::span<const Fragment> fragments,
                          uint64_t* counters);

struct CpuKernel {
  std::string_view name;
  std::string_view summary;
  CountSamples* count;
  // Whether this processor and operating system can run it.
  bool (*supported)();
  // Whether it counts under this plan.
  bool (*counts)(const internal::PlanData& plan);
  uint64_t bytes_min = 0;  // for fewer bytes its setup does not pay
};

// The kernels of bytes, whose plans count values (Plan::counts_values), and those of all other
// plans. The preferred one is last. The first one runs anywhere, counts under each such plan, and
// has bytes_min 0.
std::span<const CpuKernel> ByteKernels();
std::span<const CpuKernel> TypedKernels();

// The kernel for so many bytes under the plan, if nothing is measured: of those that are supported,
// count and pay, the last.
const CpuKernel& DefaultKernel(const internal::PlanData& plan, uint64_t bytes);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_REGISTRY_H_
