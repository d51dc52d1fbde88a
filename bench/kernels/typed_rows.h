// What a benchmark of typed samples measured, and the rows of it that are of several histograms, or
// of none.
#ifndef HISTOGRAM_BENCH_KERNELS_TYPED_ROWS_H_
#define HISTOGRAM_BENCH_KERNELS_TYPED_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/kernels/ceilings.h"
#include "bench/kernels/harness.h"

namespace histogram::bench {

struct TypedRow {
  std::string type, binning, distribution, kernel;
  uint32_t bins = 0;
  double gbps = 0, of_ceiling = 0;
};
void Print(const TypedRow& row);

// Each ends the program where an answer is wrong. Shares are of the read ceiling; those of windows'
// counts are of a copy that moves as many bytes.
void MeasureChannels(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                     std::vector<TypedRow>& rows);
void MeasureWindows(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                    std::vector<TypedRow>& rows);
void MeasureQuantiles(Harness& harness, const Ceilings& ceilings, uint64_t bytes,
                      std::vector<TypedRow>& rows);

}  // namespace histogram::bench

#endif  // HISTOGRAM_BENCH_KERNELS_TYPED_ROWS_H_
