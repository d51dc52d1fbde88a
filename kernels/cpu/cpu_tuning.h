// The CPU's dispatch table: from a file, from the cache, or measured now.
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
  bool tune = false;           // measure where neither file nor cache has a table
  std::string cache = {};      // directory; empty: no cache
  std::string table = {};      // file with a table made elsewhere; empty: none
  uint32_t tune_ms_max = 150;  // how long measuring may take
};

// All that the table for these kernels depends on.
tuning::TuningKey CpuTuningKey(absl::Span<const CpuKernel* const> kernels);

// The kernels as what a selector chooses among, in the same order.
std::vector<tuning::Candidate> Candidates(absl::Span<const CpuKernel* const> kernels);

// The rows for `kernels`; none where nothing is to be measured. Adds to `notes` what was looked for
// and not found. INVALID_ARGUMENT for a table file that cannot be read; a bad cache is only noted.
absl::StatusOr<std::vector<KernelChoice>> MakeCpuTable(absl::Span<const CpuKernel* const> kernels,
                                                       const CpuTuningOptions& options,
                                                       std::vector<std::string>& notes);

// What a typed sample costs: an f32 in one of 2,048 even bins. Takes some tenths of a millisecond.
double MeasureTypedNsPerSample();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_TUNING_H_
