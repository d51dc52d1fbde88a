#include "kernels/cpu/features.h"

namespace histogram::cpu {

#if defined(__x86_64__) && defined(__GNUC__)

// The compiler's run-time support also checks XGETBV: a feature is absent if the operating system
// does not save its registers.
std::vector<std::string> Features() {
  __builtin_cpu_init();
  std::vector<std::string> features;
#define HISTOGRAM_FEATURE(name) \
  if (__builtin_cpu_supports(name)) features.emplace_back(name)
  HISTOGRAM_FEATURE("avx2");
  HISTOGRAM_FEATURE("avx512bitalg");
  HISTOGRAM_FEATURE("avx512bw");
  HISTOGRAM_FEATURE("avx512f");
  HISTOGRAM_FEATURE("avx512vbmi");
  HISTOGRAM_FEATURE("avx512vbmi2");
  HISTOGRAM_FEATURE("avx512vl");
  HISTOGRAM_FEATURE("avx512vpopcntdq");
  HISTOGRAM_FEATURE("bmi2");
  HISTOGRAM_FEATURE("gfni");
  HISTOGRAM_FEATURE("popcnt");
#undef HISTOGRAM_FEATURE
  return features;
}

bool HasAvx512Counting() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
         __builtin_cpu_supports("gfni") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

bool HasAvx512Typed() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool HasAvx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2");
}

#else

#if defined(__aarch64__)
std::vector<std::string> Features() { return {"neon"}; }  // every such processor has it
#else
std::vector<std::string> Features() { return {}; }
#endif
bool HasAvx512Counting() { return false; }
bool HasAvx512Typed() { return false; }
bool HasAvx2() { return false; }

#endif

}  // namespace histogram::cpu
