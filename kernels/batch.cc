#include "kernels/batch.h"

#include <histogram/typed.h>

namespace histogram {

bool MayShareBatch(const Plan& a, const Plan& b) {
  if (a.counts_values() || b.counts_values()) return a.counts_values() == b.counts_values();
  return KernelName(a) == KernelName(b);
}

}  // namespace histogram
