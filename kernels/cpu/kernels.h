// The counting functions of the CPU kernels of bytes. For registry.cc only.
#ifndef HISTOGRAM_KERNELS_CPU_KERNELS_H_
#define HISTOGRAM_KERNELS_CPU_KERNELS_H_

#include <cstdint>
#include <span>

#include "kernels/workload.h"

namespace histogram::cpu {

void CountScalar(std::span<const Fragment> fragments, uint64_t* counts);

void CountTables8(std::span<const Fragment> fragments, uint64_t* counts);

void CountRuns8(std::span<const Fragment> fragments, uint64_t* counts);

// REQUIRES: HasAvx512Counting().
void CountAvx512(std::span<const Fragment> fragments, uint64_t* counts);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_KERNELS_H_
