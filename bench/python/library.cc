// The C++ library for bench/python/run.py, which calls it (ctypes) on the arrays and between the
// edges that it gives the Python package.
//
// A plan is used by any number of threads; the functions have no other state.
#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#define HISTOGRAM_BENCH extern "C" __attribute__((visibility("default")))

// Never freed. REQUIRES: Plan::Make takes these edges, and the type is one of ParseSampleType's.
HISTOGRAM_BENCH const void* library_plan(const double* edges, size_t edge_count, const char* type) {
  const auto binning =
      histogram::Binning::Edges({edges, edge_count}, std::numeric_limits<uint32_t>::max());
  return new histogram::Plan(*histogram::Plan::Make(*binning, *histogram::ParseSampleType(type)));
}

// Writes the count of each bin, on one thread.
HISTOGRAM_BENCH void library_count(const void* plan, const std::byte* samples, size_t bytes,
                                   uint64_t* counts) {
  const auto& rule = *static_cast<const histogram::Plan*>(plan);
  histogram::Histogram counted = histogram::EmptyHistogram(rule);
  histogram::AddSamples({samples, bytes}, rule, 1, counted);
  std::copy(counted.counts.begin(), counted.counts.end(), counts);
}
