// The features of the processor. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_CPU_FEATURES_H_
#define HISTOGRAM_KERNELS_CPU_FEATURES_H_

namespace histogram::cpu {

#if defined(__x86_64__) && defined(__GNUC__)

// What avx512.cc needs: AVX-512 F, BW, VL, VBMI, VBMI2 and BITALG, GFNI, BMI, BMI2 and POPCNT.
bool HasAvx512Counting();
// What typed_avx512.cc needs: AVX-512 F, DQ and VL.
bool HasAvx512Typed();
bool HasAvx2();

template <typename Work>
__attribute__((target("avx512f,avx512dq,avx512vl"))) void CallAvx512(const Work& work) {
  work();
}
template <typename Work>
__attribute__((target("avx2"))) void CallAvx2(const Work& work) {
  work();
}

#endif

// Calls work(), which must be inline, as code for AVX-512 or AVX2 where the processor has that.
template <typename Work>
void CallFast(const Work& work) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (HasAvx512Typed()) return CallAvx512(work);
  if (HasAvx2()) return CallAvx2(work);
#endif
  work();
}

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_FEATURES_H_
