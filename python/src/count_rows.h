// Counting rows on several threads, into arrays of the caller.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_PYTHON_COUNT_ROWS_H_
#define HISTOGRAM_PYTHON_COUNT_ROWS_H_

#include <histogram/plan.h>
#include <histogram/typed.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/rows.h"

namespace histogram::python {

// What a thread is worth starting for.
inline constexpr size_t kThreadBytesMin = size_t{512} << 10;

// Row by row: the counts of each bin; below, above and nan.
struct RowSink {
  std::span<int64_t> counts, outside;
};

// So many bins over each row's own range, whose edges are numpy's. They are put into `edges`, row
// by row: as floats for types of floats of up to 32 bits, else as doubles. A row whose edges numpy
// has to make is not counted, and its first edge is NaN.
struct OwnRanges {
  SampleType type;
  uint32_t bins;
  std::variant<std::span<float>, std::span<double>> edges;
};

// The promise that every answer is checked by. Throws std::runtime_error.
void CheckSum(const Histogram& histogram, size_t samples);

// Fills `row` with the counts of all samples: SlotCount(bins of the plan) counters.
void CountSlots(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                std::span<uint64_t> row);

// Fills the sink. REQUIRES: the cut is of windows or one stretch; `stretches` is what it says of
// these samples; there is a place for each row.
void CountStretches(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink);
void CountStretches(std::span<const std::byte> samples, const OwnRanges& ranges, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_COUNT_ROWS_H_
