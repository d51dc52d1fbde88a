// A plan for arrays that may come once or a thousand times.
#ifndef HISTOGRAM_PYTHON_PLAN_IN_USE_H_
#define HISTOGRAM_PYTHON_PLAN_IN_USE_H_

#include <histogram/binning.h>
#include <histogram/plan.h>

#include <cstddef>
#include <cstdint>

namespace histogram::python {

// Gets tables when it has counted so much that they pay. One thread at a time, which has the
// interpreter's lock.
class PlanInUse {
 public:
  // REQUIRES: the binning has edges.
  PlanInUse(const Binning& binning, SampleType type) : plan_(*Plan::Direct(binning, type)) {}

  // The plan to count so many more bytes with.
  const Plan& For(size_t bytes) {
    if (plan_.has_tables()) return plan_;
    samples_ += bytes / SampleBytes(type());
    if (plan_.TablesPay(samples_)) plan_ = *Plan::Make(plan_.binning(), type());
    return plan_;
  }
  SampleType type() const { return plan_.type(); }
  uint32_t bin_count() const { return plan_.bin_count(); }

 private:
  Plan plan_;
  uint64_t samples_ = 0;  // counted without tables
};

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_PLAN_IN_USE_H_
