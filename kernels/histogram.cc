#include <histogram/histogram.h>
#include <histogram/typed.h>

#include "kernels/cpu/registry.h"
#include "kernels/payload.h"

namespace histogram {

void AddValues(std::span<const std::byte> samples, ValueCounts& values) {
  static const internal::PlanData& of_bytes = Plan().data();
  const Fragment fragment = FragmentOf(samples);
  cpu::DefaultKernel(of_bytes, samples.size()).count(of_bytes, {&fragment, 1}, values.data());
}

void AddValues(const ValueCounts& more, ValueCounts& values) {
  for (uint32_t v = 0; v < kByteValues; ++v) values[v] += more[v];
}

ValueCounts CountValues(std::span<const std::byte> samples) {
  ValueCounts values{};
  AddValues(samples, values);
  return values;
}

std::string_view KernelName(size_t samples) { return KernelName(Plan(), samples); }

Histogram Count(std::span<const std::byte> samples, const Binning& binning) {
  return Fold(CountValues(samples), binning);
}

}  // namespace histogram
