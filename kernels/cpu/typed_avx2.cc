// Counts four samples of 32 bits, or doubles, at a time with AVX2 (typed_four.inc).
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define HISTOGRAM_FOUR __attribute__((target("avx2")))
#define HISTOGRAM_FOUR_INLINE HISTOGRAM_FOUR __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

HISTOGRAM_FOUR_INLINE unsigned Mask(__m128 x) { return static_cast<unsigned>(_mm_movemask_ps(x)); }
HISTOGRAM_FOUR_INLINE unsigned Mask(__m256d x) {
  return static_cast<unsigned>(_mm256_movemask_pd(x));
}

// What depends on the type of four samples (see typed_four.inc).
template <typename C>
struct Four;

template <>
struct Four<float> {
  using Vector = __m128;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(at));
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(float x) { return _mm_set1_ps(x); }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask(_mm_and_ps(_mm_cmpge_ps(x, lower), _mm_cmple_ps(x, upper)));
  }
  HISTOGRAM_FOUR_INLINE static __m256d Value(Vector x) { return _mm256_cvtps_pd(x); }
  HISTOGRAM_FOUR_INLINE static __m256d Spread(Vector x, Vector /*lower*/, uint64_t half_ulp) {
    const __m256i bits = _mm256_castpd_si256(_mm256_cvtps_pd(_mm_add_ps(x, _mm_setzero_ps())));
    const __m256i up = _mm256_set1_epi64x(static_cast<int64_t>(half_ulp));
    const __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
    return _mm256_castsi256_pd(
        _mm256_add_epi64(bits, _mm256_sub_epi64(_mm256_xor_si256(up, sign), sign)));
  }
};

template <>
struct Four<double> {
  using Vector = __m256d;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    return _mm256_loadu_pd(reinterpret_cast<const double*>(at));
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(double x) { return _mm256_set1_pd(x); }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask(
        _mm256_and_pd(_mm256_cmp_pd(x, lower, _CMP_GE_OQ), _mm256_cmp_pd(x, upper, _CMP_LE_OQ)));
  }
  HISTOGRAM_FOUR_INLINE static __m256d Value(Vector x) { return x; }
  HISTOGRAM_FOUR_INLINE static __m256d Spread(Vector x, Vector /*lower*/, uint64_t) { return x; }
};

template <typename C>
struct Four32 {
  using Vector = __m128i;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(C x) { return _mm_set1_epi32(static_cast<int32_t>(x)); }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    // One comparison of unsigned distances from `lower`.
    const __m128i from = _mm_sub_epi32(x, lower), span = _mm_sub_epi32(upper, lower);
    return Mask(_mm_castsi128_ps(_mm_cmpeq_epi32(_mm_max_epu32(from, span), span)));
  }
  HISTOGRAM_FOUR_INLINE static __m256d Value(Vector x) {
    return std::is_signed_v<C> ? _mm256_cvtepi32_pd(x) : Spread(x, _mm_setzero_si128(), 0);
  }
  HISTOGRAM_FOUR_INLINE static __m256d Spread(Vector x, Vector lower, uint64_t) {
    // Unsigned to double: subtract 2^31, convert as signed, add 2^31.
    const __m128i from = _mm_sub_epi32(x, lower);
    const __m128i less = _mm_xor_si128(from, _mm_set1_epi32(std::numeric_limits<int32_t>::min()));
    return _mm256_add_pd(_mm256_cvtepi32_pd(less), _mm256_set1_pd(0x1p31));
  }
};
template <>
struct Four<int32_t> : Four32<int32_t> {};
template <>
struct Four<uint32_t> : Four32<uint32_t> {};

struct Positions {
  using Vector = __m256d;
  HISTOGRAM_FOUR_INLINE static Vector Fill(double x) { return _mm256_set1_pd(x); }
  HISTOGRAM_FOUR_INLINE static Vector MultiplyAdd(Vector x, Vector scale, Vector offset) {
    return _mm256_add_pd(_mm256_mul_pd(x, scale), offset);
  }
  HISTOGRAM_FOUR_INLINE static unsigned StoreBins(Vector position, Vector error, Vector far_error,
                                                  int32_t last, uint32_t* bins) {
    const __m128i bin = _mm256_cvttpd_epi32(position);
    const __m256d rest = _mm256_sub_pd(position, _mm256_cvtepi32_pd(bin));
    _mm_store_si128(reinterpret_cast<__m128i*>(bins), _mm_min_epi32(bin, _mm_set1_epi32(last)));
    return Mask(_mm256_or_pd(_mm256_cmp_pd(rest, error, _CMP_LE_OQ),
                             _mm256_cmp_pd(rest, far_error, _CMP_GE_OQ)));
  }
  HISTOGRAM_FOUR_INLINE static void StoreBinsByEdges(Vector position, Vector value, Vector last,
                                                     Vector first_edge, Vector step,
                                                     uint32_t* bins) {
    const __m256d nearest = _mm256_min_pd(
        _mm256_round_pd(position, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), last);
    const __m256d edge = _mm256_add_pd(_mm256_mul_pd(nearest, step), first_edge);
    const __m256d one_below =
        _mm256_and_pd(_mm256_cmp_pd(value, edge, _CMP_LT_OQ), _mm256_set1_pd(1));
    _mm_store_si128(reinterpret_cast<__m128i*>(bins),
                    _mm256_cvttpd_epi32(_mm256_sub_pd(nearest, one_below)));
  }
  HISTOGRAM_FOUR_INLINE static unsigned Equal(const uint32_t* bins, uint32_t bin) {
    const __m128i stored = _mm_load_si128(reinterpret_cast<const __m128i*>(bins));
    return Mask(
        _mm_castsi128_ps(_mm_cmpeq_epi32(stored, _mm_set1_epi32(static_cast<int32_t>(bin)))));
  }
};

#include "kernels/cpu/typed_four.inc"

}  // namespace

void CountTypedAvx2(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  CountByFours(plan, runs, row);
}

}  // namespace histogram::cpu

#endif
