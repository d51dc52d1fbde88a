// One byte at a time into the caller's table: nothing to set up, so the best for a few bytes; a run
// of equal bytes waits for each store to be forwarded to the next load.
#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace histogram::cpu {

void CountScalar(std::span<const Fragment> fragments, uint64_t* counts) {
  for (const Fragment& fragment : fragments) {
    for (const uint8_t value : fragment) ++counts[value];
  }
}

}  // namespace histogram::cpu
