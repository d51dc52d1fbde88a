#include "kernels/batch.h"

#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include "kernels/plan_data.h"

namespace histogram {

size_t CounterCount(const std::optional<Plan>& plan) {
  return plan.has_value() ? internal::SlotCount(plan->bin_count()) : kByteValues;
}

uint64_t SampleBytesOf(const std::optional<Plan>& plan) {
  return plan.has_value() ? SampleBytes(plan->type()) : 1;
}

bool MayShareBatch(const std::optional<Plan>& a, const std::optional<Plan>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return KernelName(*a) == KernelName(*b);
}

}  // namespace histogram
