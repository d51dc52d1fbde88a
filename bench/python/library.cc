// The C++ library for bench/python/run.py, which calls it (ctypes) on the arrays and between the
// edges that it gives the Python package. And plain reading, the ceiling of both.
//
// A plan is used by any number of threads; the functions have no other state.
#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <histogram/typed.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#define HISTOGRAM_BENCH extern "C" __attribute__((visibility("default")))

namespace {

uint64_t Sum(const std::byte* bytes, size_t size) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + sizeof(sums) <= size; i += sizeof(sums)) {
    uint64_t words[8];
    std::memcpy(words, bytes + i, sizeof(words));
    for (size_t k = 0; k < 8; ++k) sums[k] += words[k];
  }
  return std::accumulate(sums, sums + 8, uint64_t{0});
}

}  // namespace

// Never freed. REQUIRES: Plan::Make takes these edges, and the type is one of ParseSampleType's.
HISTOGRAM_BENCH const void* library_plan(const double* edges, size_t edge_count, const char* type) {
  const auto binning =
      histogram::Binning::Edges({edges, edge_count}, std::numeric_limits<uint32_t>::max());
  return new histogram::Plan(*histogram::Plan::Make(*binning, *histogram::ParseSampleType(type)));
}

// Writes the count of each bin.
HISTOGRAM_BENCH void library_count(const void* plan, const std::byte* samples, size_t bytes,
                                   uint32_t threads, uint64_t* counts) {
  const auto& rule = *static_cast<const histogram::Plan*>(plan);
  histogram::Histogram counted = histogram::EmptyHistogram(rule);
  histogram::AddSamples({samples, bytes}, rule, threads, counted);
  std::copy(counted.counts.begin(), counted.counts.end(), counts);
}

// Reads each byte, on so many threads. REQUIRES: threads > 0.
HISTOGRAM_BENCH uint64_t library_read(const std::byte* samples, size_t bytes, uint32_t threads) {
  std::vector<uint64_t> sums(threads);
  const auto read = [&](uint32_t part) {
    const size_t begin = bytes * part / threads, end = bytes * (part + 1) / threads;
    sums[part] = Sum(samples + begin, end - begin);
  };
  {
    std::vector<std::jthread> others;
    for (uint32_t part = 1; part < threads; ++part) others.emplace_back(read, part);
    read(0);
  }
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}
