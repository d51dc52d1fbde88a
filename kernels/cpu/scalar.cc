// Counts one byte at a time into the caller's table. It has no setup, so it is the fastest for a
// few bytes. In a run of equal bytes each load waits for the store before it.
#include <cstdint>

#include "kernels/cpu/registry.h"

namespace histogram::cpu {

void CountScalar(const internal::PlanData& /*plan*/, std::span<const Fragment> fragments,
                 uint64_t* counts) {
  for (const Fragment& fragment : fragments) {
    for (const uint8_t value : fragment) ++counts[value];
  }
}

}  // namespace histogram::cpu
