// What all counting of a Python object's buffer shares.
#ifndef HISTOGRAM_PYTHON_COUNTING_H_
#define HISTOGRAM_PYTHON_COUNTING_H_

#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/plan_data.h"
#include "kernels/plan_in_use.h"
#include "python/src/buffer.h"

namespace histogram::python {

// To give the lock away and take it back costs more than to count fewer bytes. Not measured apart.
constexpr size_t kUnlockedBytesMin = size_t{16} << 10;

// Throws unless there is such a type.
SampleType TypeNamed(std::string_view name);
// Throws unless the samples are whole ones.
void CheckWhole(size_t bytes, SampleType type);
// Checks an answer, as every answer is checked. Throws unless the counters of so many samples add
// up to them.
void CheckSum(std::span<const uint64_t> counters, uint64_t samples);

template <typename Work>
void Unlocked(size_t bytes, const Work& work) {
  if (bytes < kUnlockedBytesMin) return work();
  const nb::gil_scoped_release release;
  work();
}

// The plan to count so many bytes with.
inline const Plan& PlanFor(PlanInUse& in_use, size_t bytes) {
  return in_use.Pays(bytes / SampleBytes(in_use.type())) ? in_use.Get() : in_use.Now();
}

// The samples below, above and NaN, which a plan's counters end with.
inline std::span<const uint64_t> OutsideOf(std::span<const uint64_t> counters) {
  return counters.last(internal::kOutsideSlots);
}

// A plan's counters as a buffer of int64, which is read-only: one for each bin, and three others.
struct Counters {
  std::vector<uint64_t> counters;

  static int GetBuffer(PyObject* self, Py_buffer* view, int flags);
};

struct Counted {
  Counters counters;
  uint64_t below, above, nan;
};

Counted Count(PlanInUse& plan, const Buffer& samples, uint32_t threads);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_COUNTING_H_
