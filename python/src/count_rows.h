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

#include "kernels/rows.h"

namespace histogram::python {

// What a thread is worth starting for.
inline constexpr size_t kThreadBytesMin = size_t{512} << 10;

// Row by row: the counts of each bin; below, above and nan.
struct RowSink {
  std::span<int64_t> counts, outside;
};

// The promise that every answer is checked by. Throws std::runtime_error.
void CheckSum(const Histogram& histogram, size_t samples);

// Fills `row` with the counts of all samples: SlotCount(bins of the plan) counters.
void CountSlots(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                std::span<uint64_t> row);

// Fills the sink. REQUIRES: `stretches` is what the cut says of these samples, and the sink has a
// place for each row.
void CountStretches(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink);

}  // namespace histogram::python

#endif  // HISTOGRAM_PYTHON_COUNT_ROWS_H_
