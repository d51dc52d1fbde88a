// Plans for arrays that may come once or a thousand times, and numpy's even edges.
#ifndef HISTOGRAM_PYTHON_PLANS_H_
#define HISTOGRAM_PYTHON_PLANS_H_

#include <histogram/binning.h>
#include <histogram/plan.h>

#include <cstdint>
#include <optional>
#include <span>

namespace histogram::python {

// A plan that gets tables when it has counted so much that they pay. One thread at a time, which
// has the interpreter's lock.
class PlanInUse {
 public:
  // REQUIRES: the binning has edges.
  PlanInUse(const Binning& binning, SampleType type);

  // The plan to count so many more bytes with.
  Plan For(size_t bytes);
  SampleType type() const { return plan_.type(); }
  uint32_t bin_count() const { return plan_.bin_count(); }

 private:
  Plan plan_;
  uint64_t left_;  // samples that a plan without tables is to count; 0: it has tables
};

// How numpy.linspace computes edges: in halves, floats or doubles, which it rounds to its edges'
// type.
struct EvenRule {
  enum class Type : uint8_t { kHalf, kFloat, kDouble };
  Type arithmetic = Type::kDouble, edges = Type::kDouble;
};

// Fills `edges` as numpy.linspace does. nullopt, and edges without meaning, where they are not
// finite, do not increase, or have a step of 0.
std::optional<Binning> EvenEdges(double first, double last, EvenRule rule, std::span<double> edges);
std::optional<Binning> EvenEdges(double first, double last, EvenRule rule, std::span<float> edges);

// The nearest half; of two the even one.
double RoundedToHalf(double value);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_PLANS_H_
