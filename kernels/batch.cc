#include "kernels/batch.h"

#include <histogram/typed.h>

#include <algorithm>
#include <span>

namespace histogram {

bool MayShareBatch(const Plan& a, const Plan& b) {
  if (a.counts_values() || b.counts_values()) return a.counts_values() == b.counts_values();
  return KernelName(a) == KernelName(b);
}

bool HaveSameBins(const Plan& a, const Plan& b) {
  if (a.counts_values() || &a.data() == &b.data()) return true;
  if (a.type() != b.type()) return false;
  const internal::EdgeRule& of_a = a.binning().edge_rule();
  const internal::EdgeRule& of_b = b.binning().edge_rule();
  if (of_a.listed == nullptr || of_b.listed == nullptr) return of_a == of_b;
  return std::ranges::equal(std::span(of_a.listed, of_a.bins + 1),
                            std::span(of_b.listed, of_b.bins + 1));
}

}  // namespace histogram
