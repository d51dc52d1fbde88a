#include "kernels/cpu/registry.h"

#include "kernels/cpu/features.h"

namespace histogram::cpu {

// Each is defined in the file of a kernel.
CountBytes CountScalar, CountAvx512;

namespace {

bool Everywhere() { return true; }

constexpr CpuKernel kKernels[] = {
    {"scalar", "one byte at a time into one table", CountScalar, Everywhere, 0},
    {"runs8", "eight bytes at a time into eight tables; a run of 256 equal bytes in one addition",
     CountRuns8, Everywhere, 2048},
#if defined(__x86_64__) && defined(__GNUC__)
    {"avx512", "positional population count of one-hot words; runs in one addition", CountAvx512,
     HasAvx512Counting, 512},
#endif
};

}  // namespace

std::span<const CpuKernel> Kernels() { return kKernels; }

const CpuKernel* FindKernel(std::string_view name) {
  for (const CpuKernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

const CpuKernel& DefaultKernel(uint64_t bytes) {
  const CpuKernel* best = &kKernels[0];
  for (const CpuKernel& kernel : kKernels) {
    if (kernel.bytes_min <= bytes && kernel.supported()) best = &kernel;
  }
  return *best;
}

}  // namespace histogram::cpu
