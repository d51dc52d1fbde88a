// The CPU's dispatch table: read from a file or the cache, or measured now.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_
#define HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/registry.h"
#include "kernels/tuning/selector.h"
#include "kernels/tuning/tuning_table.h"

namespace histogram::cpu {

struct CpuTuningOptions {
  bool tune = false;           // measure if neither file nor cache has a table
  std::string cache = {};      // directory; empty: no cache
  std::string table = {};      // file with a table made elsewhere; empty: none
  uint32_t tune_ms_max = 150;  // the most time for measuring
};

// What the table of these kernels depends on: processor, build and kernels.
tuning::TuningKey CpuTuningKey(absl::Span<const CpuKernel* const> kernels);

// The kernels as candidates of a selector, in the same order.
std::vector<tuning::Candidate> Candidates(absl::Span<const CpuKernel* const> kernels);

// The rows for `kernels`; none if there is no table and `tune` is false. Adds to `notes` what was
// not found. INVALID_ARGUMENT for a table file that cannot be read. A bad cache is only noted.
absl::StatusOr<std::vector<KernelChoice>> MakeCpuTable(absl::Span<const CpuKernel* const> kernels,
                                                       const CpuTuningOptions& options,
                                                       std::vector<std::string>& notes);

// The time of a typed sample: an f32 in one of 2,048 even bins. Takes some tenths of a millisecond.
double MeasureTypedNsPerSample();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_
