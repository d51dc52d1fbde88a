// Counting typed samples in this process, on one core or on several.
//
//   histogram::Histogram h = histogram::Count(std::span<const float>(activations), *plan);
//
// Samples that come in chunks, or from several threads or machines: count each part, and add up.
//
//   histogram::Histogram sum = histogram::EmptyHistogram(*plan);
//   while (ReadChunk(chunk)) histogram::AddSamples(chunk, *plan, sum);
//   histogram::Merge(theirs, sum);
//
// Samples may lie at any address; those of several bytes are little-endian. NaN is counted apart,
// -0.0 equals 0.0, and an infinity is below or above.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_TYPED_H_
#define HISTOGRAM_TYPED_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace histogram {

// A histogram of no samples.
Histogram EmptyHistogram(const Plan& plan);

// Adds samples to a histogram of the same plan, on the calling thread.
// REQUIRES: samples.size() is a multiple of SampleBytes(plan.type()); `into` is of as many bins.
void AddSamples(std::span<const std::byte> samples, const Plan& plan, Histogram& into);

// The same on up to `threads` threads, the calling one among them; 0: as many as this process may
// use cores. Fewer where there is too little for each.
void AddSamples(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                Histogram& into);

// Adds the counts of other samples. REQUIRES: both are of the same binning.
void Merge(const Histogram& more, Histogram& into);

// REQUIRES: samples.size() is a multiple of SampleBytes(plan.type()).
Histogram Count(std::span<const std::byte> samples, const Plan& plan);

// REQUIRES: plan.type() is that of the numbers.
template <typename Number, size_t kExtent>
Histogram Count(std::span<const Number, kExtent> samples, const Plan& plan) {
  return Count(std::as_bytes(samples), plan);
}

// The name of the kernel by which this processor counts the plan.
std::string_view KernelName(const Plan& plan);

// The least and the greatest sample. For types of 64-bit integers the bounds are rounded outwards
// to doubles.
struct Extent {
  double least = 0, greatest = 0;
  bool finite = true;  // no NaN, no infinity; where not, the bounds are those of the other samples
};
// None where there are no finite samples.
// REQUIRES: samples.size() is a multiple of SampleBytes(type).
std::optional<Extent> FindExtent(std::span<const std::byte> samples, SampleType type);

}  // namespace histogram

#endif  // HISTOGRAM_TYPED_H_
