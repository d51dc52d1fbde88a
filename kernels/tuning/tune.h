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
#include "kernels/workload.h"

namespace histogram::tuning {

// How the cheapest candidate is searched for.
struct TunerOptions {
  uint32_t first_round = 4;  // measurements of each candidate in the first round
  uint32_t last_round = 12;  // of each of the last two
  // A candidate whose cost exceeds this many times the least cost of all is dropped. After the
  // first measurement, which may be noise, the square of this factor applies.
  double hopeless_factor = 4;
  // Candidates come in order of preference: a later one must be cheaper than an earlier one by this
  // part, or noise would decide between equals, differently each time.
  double margin = 0.02;
  // Ends the search once the costs reported add up to it and every candidate had its first chance.
  uint64_t budget_ns = UINT64_MAX;
};

struct Cheapest {
  size_t candidate = 0;
  uint64_t cost_ns = 0;
};
// What a run of `candidate` costs, in nanoseconds. An error means that it cannot do the work: it is
// never measured or chosen again. But kCancelled: no time is left, and the search ends.
using MeasureOne = absl::FunctionRef<absl::StatusOr<uint64_t>(size_t candidate)>;
// Finds the cheapest of a few candidates from noisy costs, by successive halving; nullopt if none
// could be measured. Each round measures every candidate that is left equally often, twice as often
// as the round before, and keeps the better half; a hopeless candidate is dropped at once. The cost
// of a candidate is the lower quartile of its times: noise only adds time, so the mean is too
// pessimistic, and the minimum too optimistic.
std::optional<Cheapest> FindCheapest(size_t candidates, const TunerOptions& options,
                                     MeasureOne measure);

// A kind of workload: the limits of its row in the table, and the workload that stands for it.
struct TuneCell {
  Workload measured;
  uint64_t payload_bytes_max = 0;
  uint32_t payloads_max = 0;
  // Instead of TuneOptions::tuner's, where this kind is measured with more noise or less.
  std::optional<TunerOptions> tuner;
};

// What kernels are measured on: a quarter each of random bytes, letters, two values in turn, and
// one value, in stretches of 16 KiB. A kernel that is fast on some only shall not win.
inline constexpr size_t kStretchBytes = 16384, kStretches = 4;
std::vector<uint8_t> MixedBytes(size_t bytes);

// The same on a batch of this shape. kCancelled ends tuning with what it knows.
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
