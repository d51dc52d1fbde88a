// Counts bytes in this process, with the service's binnings and answers. Needs only C++20. Uses the
// fastest CPU kernel that this processor can run.
//
// One histogram of bytes in memory:
//
//   auto binning = histogram::Binning::Alphabet('a', 26, 6);
//   if (!binning.ok()) return Complain(binning.error().message);
//   histogram::Histogram h = histogram::Count(text, *binning);
//
// For bytes that come in chunks, for several histograms of the same bytes, or for statistics: count
// the values once, and compute the rest from their counts.
//
//   histogram::ValueCounts values{};
//   while (ReadChunk(chunk)) histogram::AddValues(chunk, values);
//   histogram::Histogram h = histogram::Fold(values, *binning);
//   histogram::Statistics s = histogram::ComputeStatistics(values, *binning, {0.5, 0.99});
//
// Thread-safe: the functions have no state and count on the calling thread. To use several threads,
// give each a part of the bytes and its own ValueCounts. Then sum these with AddValues.
#ifndef HISTOGRAM_HISTOGRAM_H_
#define HISTOGRAM_HISTOGRAM_H_

#include <histogram/binning.h>
#include <histogram/result.h>
#include <histogram/statistics.h>
#include <histogram/values.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace histogram {

// How often each of the 256 values occurs in `samples`.
ValueCounts CountValues(std::span<const std::byte> samples);

// Adds to `values` how often each value occurs in `samples`.
void AddValues(std::span<const std::byte> samples, ValueCounts& values);
// Adds the counts in `more` to `values`.
void AddValues(const ValueCounts& more, ValueCounts& values);

// The name of the kernel that counts this many samples on this processor.
std::string_view KernelName(size_t samples);

// The histogram of `samples` under `binning`: Fold(CountValues(samples), binning).
Histogram Count(std::span<const std::byte> samples, const Binning& binning);

// The same functions for std::string_view and uint8_t.
inline ValueCounts CountValues(std::string_view samples) {
  return CountValues(std::as_bytes(std::span(samples)));
}
inline ValueCounts CountValues(std::span<const uint8_t> samples) {
  return CountValues(std::as_bytes(samples));
}
inline void AddValues(std::string_view samples, ValueCounts& values) {
  AddValues(std::as_bytes(std::span(samples)), values);
}
inline void AddValues(std::span<const uint8_t> samples, ValueCounts& values) {
  AddValues(std::as_bytes(samples), values);
}
inline Histogram Count(std::string_view samples, const Binning& binning) {
  return Count(std::as_bytes(std::span(samples)), binning);
}
inline Histogram Count(std::span<const uint8_t> samples, const Binning& binning) {
  return Count(std::as_bytes(samples), binning);
}

}  // namespace histogram

#endif  // HISTOGRAM_HISTOGRAM_H_
