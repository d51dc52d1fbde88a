// The plans of rows that are counted over their own ranges, as numpy counts each.
//
// Thread-safe: a function without state.
#ifndef HISTOGRAM_PYTHON_OWN_RANGES_H_
#define HISTOGRAM_PYTHON_OWN_RANGES_H_

#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <cstdint>
#include <optional>
#include <span>

namespace histogram::python {

// The plan of a row with this extent and so many samples. Writes its edges, which are numpy's: as
// floats for types of floats of up to 32 bits, else as doubles. nullopt, and a first edge that is
// NaN, where numpy has to make them.
std::optional<Plan> PlanOver(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                             std::span<float> edges);
std::optional<Plan> PlanOver(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                             std::span<double> edges);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_OWN_RANGES_H_
