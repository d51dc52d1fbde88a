// The features of the processor. Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_CPU_FEATURES_H_
#define HISTOGRAM_KERNELS_CPU_FEATURES_H_

namespace histogram::cpu {

#if defined(__x86_64__)

// The compiler's run-time support also checks XGETBV: a feature is absent if the operating system
// does not save its registers.

// What avx512.cc needs.
inline bool HasAvx512Counting() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
         __builtin_cpu_supports("gfni") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
// What typed_avx512.cc needs.
inline bool HasAvx512Typed() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
inline bool HasAvx2() { return __builtin_cpu_supports("avx2"); }

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
#if defined(__x86_64__)
  if (HasAvx512Typed()) return CallAvx512(work);
  if (HasAvx2()) return CallAvx2(work);
#endif
  work();
}

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_FEATURES_H_
