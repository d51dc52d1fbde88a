// The CPU kernels that are compiled in. A new kernel is one file, its
// prototype in kernels.h and one line in registry.cc; tests, benchmark and tuner iterate over them.
//
// Thread-safe: constant tables and pure functions.
#ifndef HISTOGRAM_KERNELS_CPU_REGISTRY_H_
#define HISTOGRAM_KERNELS_CPU_REGISTRY_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/workload.h"

namespace histogram::cpu {

// Adds how often each of the 256 values occurs in the fragments' bytes to counts[0..255].
// Fragments may be empty, of any length and at any address.
using CountFunction = void (*)(std::span<const Fragment> fragments, uint64_t* counts);

struct CpuKernel {
  std::string_view name;
  std::string_view summary;
  CountFunction count;
  // Whether this processor and operating system can run it.
  bool (*supported)();
  // Without measurements the supported kernel of the highest priority is taken whose `bytes_min`
  // the payload reaches: what it sets up and folds does not pay for less.
  int priority;
  uint64_t bytes_min;
};

// All kernels, in ascending order of priority. The first one runs anywhere, with bytes_min 0.
std::span<const CpuKernel> Kernels();

// The kernel of that name, supported or not; nullptr for an unknown one.
const CpuKernel* FindKernel(std::string_view name);

// The kernel for payloads of `bytes` where nothing was measured.
const CpuKernel& DefaultKernel(uint64_t bytes);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_REGISTRY_H_
