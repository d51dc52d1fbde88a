// numpy.linspace in each type of floats: even edges as numpy.histogram has them.
//
// Thread-safe: functions without state. REQUIRES: the floating-point mode is the library's.
#ifndef HISTOGRAM_KERNELS_LINSPACE_H_
#define HISTOGRAM_KERNELS_LINSPACE_H_

#include <histogram/binning.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <span>

namespace histogram::internal {

// The nearest number of a type of floats; of two the even one. Other types: the same number.
double RoundedTo(SampleType type, double x);

// The rule of even edges. That of narrow ones with slack 0 is only good for FillEdges. The caller
// checks whether edges are finite and increase.
EdgeRule Linspace(EvenTypes types, uint32_t bins, double first, double last);

// Fills `edges`, which has a place for each edge.
void FillEdges(const EdgeRule& rule, std::span<double> edges);
void FillEdges(const EdgeRule& rule, std::span<float> edges);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_LINSPACE_H_
