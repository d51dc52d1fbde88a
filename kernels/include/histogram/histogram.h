// The library's front door: count a span of bytes in this process, with the service's binnings and
// answers. Uses the fastest CPU kernel that this processor can run.
//
//   auto binning = histogram::Binning::Alphabet('a', 26, 6);
//   histogram::Histogram h = histogram::Count(bytes, *binning);
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_HISTOGRAM_H_
#define HISTOGRAM_HISTOGRAM_H_

#include <histogram/binning.h>
#include <histogram/statistics.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/workload.h"

namespace histogram {

// How often each of the 256 values occurs in `samples`.
ValueCounts CountValues(absl::Span<const uint8_t> samples);

// The name of the kernel by which this processor counts so many samples.
std::string_view KernelName(size_t samples);

// The histogram of `samples` under `binning`.
Histogram Count(absl::Span<const uint8_t> samples, const Binning& binning);

}  // namespace histogram

#endif  // HISTOGRAM_HISTOGRAM_H_
