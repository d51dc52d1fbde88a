// The CPU kernels of bytes in this build. A new kernel takes one file, its lines in registry.cc,
// and one in kernels/CMakeLists.txt. Tests, benchmark and tuner iterate over all kernels.
//
// Thread-safe: constant tables and pure functions.
#ifndef HISTOGRAM_KERNELS_CPU_REGISTRY_H_
#define HISTOGRAM_KERNELS_CPU_REGISTRY_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/workload.h"

namespace histogram::cpu {

// Adds the number of bytes of each value v in the fragments to counts[v], v in 0..255. Fragments
// may be empty, of any length and at any address.
using CountBytes = void(std::span<const Fragment> fragments, uint64_t* counts);

struct CpuKernel {
  std::string_view name;
  std::string_view summary;
  CountBytes* count;
  // Whether this processor and operating system can run it.
  bool (*supported)();
  // Without measurements, the last supported kernel with bytes_min <= the payload's bytes is
  // chosen. For fewer bytes its setup does not pay.
  uint64_t bytes_min;
};

// All kernels, the preferred one last. The first one runs anywhere and has bytes_min 0.
std::span<const CpuKernel> Kernels();

// The kernel of that name, supported or not; nullptr for an unknown one.
const CpuKernel* FindKernel(std::string_view name);

// The kernel for payloads of `bytes` if nothing is measured.
const CpuKernel& DefaultKernel(uint64_t bytes);

// Defined in runs8.cc.
CountBytes CountRuns8;

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_REGISTRY_H_
