// Counts an array into even bins over a range that may never have come before.
#ifndef HISTOGRAM_PYTHON_EVEN_COUNTER_H_
#define HISTOGRAM_PYTHON_EVEN_COUNTER_H_

#include <histogram/binning.h>
#include <histogram/sample_type.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/plan_in_use.h"

namespace histogram::python {

namespace nb = nanobind;

// For samples of one type, and edges of the types that numpy gives them. One thread at a time,
// which has the interpreter's lock. One call does it all, so that a new range costs little: between
// calls other work takes the caches from Python's code. All counters share the plans of the last
// ranges.
class EvenCounter {
 public:
  // `later_edges` makes what stands for the edges, of ((first, last, arithmetic, edges), bins).
  EvenCounter(std::string_view type, nb::str arithmetic, nb::str edges, nb::callable later_edges);

  // (counters; below, above, nan; edges). None where the samples are not contiguous, the ends are
  // not two doubles that increase, the bins are not 1 to 65,536, or the edges do not increase:
  // numpy is to make the edges then.
  nb::object Count(const nb::handle& samples, const nb::handle& first, const nb::handle& last,
                   const nb::handle& bins, uint32_t threads);

 private:
  struct Bins {
    std::shared_ptr<PlanInUse> plan;  // null where edges are not finite or do not increase
    nb::object edges;
  };
  // The bins of a range, remembered.
  Bins Find(double first, double last, uint32_t bins) const;

  const SampleType type_;
  const nb::str arithmetic_, edges_;
  const EvenTypes types_;
  const nb::callable later_edges_;
};

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_EVEN_COUNTER_H_
