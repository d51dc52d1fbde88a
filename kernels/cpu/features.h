// What the processor can do. Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_CPU_FEATURES_H_
#define HISTOGRAM_KERNELS_CPU_FEATURES_H_

#include <string>
#include <vector>

namespace histogram::cpu {

// The instruction sets among those that kernels here use which this processor has and this
// operating system saves ("avx512vbmi2"), sorted.
std::vector<std::string> Features();

// Everything that avx512.cc needs: AVX-512 F, BW, VL, VBMI, VBMI2, BITALG, GFNI, and BMI and POPCNT
// beside them.
bool HasAvx512Counting();

// What typed_avx512.cc needs: AVX-512 F, DQ and VL.
bool HasAvx512Typed();
bool HasAvx2();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_FEATURES_H_
