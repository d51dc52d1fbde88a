#include <histogram/histogram.h>
#include <histogram/typed.h>

#include "kernels/payload.h"

namespace histogram {

void AddValues(std::span<const std::byte> samples, ValueCounts& values) {
  const Fragment fragment = FragmentOf(samples);
  AddPayload(Plan(), {&fragment, 1}, values);
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
