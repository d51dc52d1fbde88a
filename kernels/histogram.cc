#include <histogram/histogram.h>

#include "kernels/batch.h"
#include "kernels/cpu/registry.h"

namespace histogram {

ValueCounts CountValues(absl::Span<const uint8_t> samples) {
  ValueCounts counts{};
  const Fragment fragment = samples;
  cpu::DefaultKernel(samples.size()).count({&fragment, 1}, counts.data());
  return counts;
}

std::string_view KernelName(size_t samples) { return cpu::DefaultKernel(samples).name; }

Histogram Count(absl::Span<const uint8_t> samples, const Binning& binning) {
  return Fold(CountValues(samples), binning);
}

}  // namespace histogram
