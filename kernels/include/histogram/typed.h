// Counts typed samples in this process, on one core or several.
//
//   histogram::Histogram h = histogram::Count(std::span<const float>(activations), *plan);
//
// For samples that come in chunks, or from several threads or machines: count each part, and sum.
//
//   histogram::Histogram sum = histogram::EmptyHistogram(*plan);
//   while (ReadChunk(chunk)) histogram::AddSamples(chunk, *plan, sum);
//   histogram::Merge(theirs, sum);
//
// Samples may lie at any address. Samples of several bytes are little-endian. NaN has its own
// count. -0.0 equals 0.0. An infinity is below or above.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_TYPED_H_
#define HISTOGRAM_TYPED_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace histogram {

// A histogram of no samples.
Histogram EmptyHistogram(const Plan& plan);

// Adds samples to a histogram of the same plan, on the calling thread.
// REQUIRES: samples.size() is a multiple of SampleBytes(plan.type()); `into` has the plan's bins.
void AddSamples(std::span<const std::byte> samples, const Plan& plan, Histogram& into);

// The same on up to `threads` threads, including the calling one. 0: UsableCores(). Short
// arrays use fewer.
void AddSamples(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                Histogram& into);

// Adds the counts in `more` to `into`. REQUIRES: both have the same binning.
void Merge(const Histogram& more, Histogram& into);

// The histogram of `samples`, counted on the calling thread.
// REQUIRES: as for AddSamples.
Histogram Count(std::span<const std::byte> samples, const Plan& plan);

// REQUIRES: plan.type() is the type of Number.
template <typename Number, size_t kExtent>
Histogram Count(std::span<const Number, kExtent> samples, const Plan& plan) {
  assert(sizeof(Number) == SampleBytes(plan.type()) || (std::is_same_v<Number, std::byte>));
  return Count(std::as_bytes(samples), plan);
}

// The name of the kernel that counts under the plan on this processor. That of bytes depends on how
// many there are.
std::string_view KernelName(const Plan& plan, size_t samples = 0);

// The least and the greatest finite sample. Integers of 64 bits are rounded outwards to doubles.
struct Extent {
  double least = 0, greatest = 0;
  bool finite = true;          // whether all samples are finite
  bool constant = false;       // whether the finite ones are equal
  bool negative_zero = false;  // whether the greatest is 0, and a sample is -0.0
};
// nullopt if no sample is finite. -0.0 counts as 0.0.
// REQUIRES: samples.size() is a multiple of SampleBytes(type).
std::optional<Extent> FindExtent(std::span<const std::byte> samples, SampleType type);

}  // namespace histogram

#endif  // HISTOGRAM_TYPED_H_
