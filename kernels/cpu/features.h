// The features of the processor. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_CPU_FEATURES_H_
#define HISTOGRAM_KERNELS_CPU_FEATURES_H_

namespace histogram::cpu {

// What avx512.cc needs: AVX-512 F, BW, VL, VBMI, VBMI2 and BITALG, GFNI, BMI, BMI2 and POPCNT.
bool HasAvx512Counting();

// What typed_avx512.cc needs: AVX-512 F, DQ and VL.
bool HasAvx512Typed();
bool HasAvx2();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_FEATURES_H_
