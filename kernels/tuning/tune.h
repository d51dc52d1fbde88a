// Fills a dispatch table: for each kind of workload the candidate that measures cheapest.
//
// The caller brings the measurements, and with them the clock and the device. Not thread-safe by
// itself: one call tunes one device; devices may be tuned side by side.
#ifndef HISTOGRAM_KERNELS_TUNING_TUNE_H_
#define HISTOGRAM_KERNELS_TUNING_TUNE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/workload.h"

namespace histogram::tuning {

// A kind of workload: the limits of its row in the table, and the workload that stands for it.
struct TuneCell {
  Workload measured;
  uint64_t payload_bytes_max = 0;
  uint32_t payloads_max = 0;
  uint32_t runs = 24;  // the most measurements of a candidate
  // A less preferred candidate must be cheaper than a preferred one by this part, or noise would
  // decide between equals, differently each time.
  double margin = 0.02;
};

// What kernels are measured on: a quarter each of random bytes, letters, two values in turn, and
// one value, in stretches of 16 KiB. A kernel that is fast on some only shall not win.
inline constexpr size_t kStretchBytes = 16384, kStretches = 4;
std::vector<uint8_t> MixedBytes(size_t bytes);

// What a run of `candidate` on a batch of this shape costs, in nanoseconds. An error means that it
// cannot do the work: it is not measured again for this cell, and not chosen.
using Measure = absl::FunctionRef<absl::StatusOr<uint64_t>(size_t candidate, const Workload&)>;
// The nanoseconds left for tuning. At 0 it ends with what it knows.
using TimeLeft = absl::FunctionRef<uint64_t()>;

// One row a cell, in the order of `cells`. A cell of which nothing was measured gets none.
// `candidates`: their names, the preferred one last.
//
// In a cell candidates take turns, so that a disturbance hits all alike; once the cell's part of
// the time is used up, only those run that have not yet run. The cost of a candidate is the lower
// quartile of its times: noise only adds time, so the mean is too pessimistic, and the minimum too
// optimistic. A candidate misses its turn while its cost is hopeless: the more often it was
// measured, the less it may be above the least.
//
// Cells of growing size show slow candidates while they are still cheap to measure: a candidate
// that, extrapolated from smaller cells, would exceed the cell's part of the time is left out.
std::vector<KernelChoice> Tune(const std::string& backend, absl::Span<const std::string> candidates,
                               absl::Span<const TuneCell> cells, TimeLeft left_ns, Measure measure);

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_TUNE_H_
