// Fills a dispatch table: for each kind of workload the candidate that measures cheapest.
//
// The caller brings the measurements, and with them the clock and the device. Not thread-safe by
// itself: one call tunes one device; devices may be tuned side by side.
#ifndef HISTOGRAM_KERNELS_TUNING_TUNE_H_
#define HISTOGRAM_KERNELS_TUNING_TUNE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/tuning/selector.h"
#include "kernels/tuning/tuner.h"
#include "kernels/workload.h"

namespace histogram::tuning {

// A kind of workload: the limits of its row in the table, and the workload that stands for it.
struct TuneCell {
  Workload measured;
  uint64_t payload_bytes_max = 0;
  uint32_t payloads_max = 0;
  // Instead of TuneOptions::tuner's, where this kind is measured with more noise or less.
  std::optional<TunerOptions> tuner;
};

// What one run of `candidate` on a batch of this shape costs, in nanoseconds. An error means that
// it cannot do the work there, but kCancelled: then no time is left, and tuning ends with what it
// knows.
using Measure = absl::FunctionRef<absl::StatusOr<uint64_t>(size_t candidate, const Workload&)>;

struct TuneOptions {
  TunerOptions tuner;                  // budget_ns is set by Tune
  uint64_t budget_ns = 1'000'000'000;  // of measured time, over all cells
};

// One row a cell, in the order of `cells`. A cell of which nothing was measured gets none. Cells of
// growing size show slow candidates while they are still cheap to measure: Tune skips a candidate
// that, extrapolated from smaller cells, would exceed the cell's part of the budget.
std::vector<KernelChoice> Tune(const std::string& backend, absl::Span<const Candidate> candidates,
                               absl::Span<const TuneCell> cells, const TuneOptions& options,
                               Measure measure);

}  // namespace histogram::tuning

#endif  // HISTOGRAM_KERNELS_TUNING_TUNE_H_
