// Four samples at a time with AVX2, as typed_avx512.cc does eight. Positions near an integer are
// settled one by one.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define HISTOGRAM_AVX2 __attribute__((target("avx2")))
#define HISTOGRAM_AVX2_INLINE HISTOGRAM_AVX2 __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

using internal::Bins;

constexpr size_t kVector = 4;  // samples
constexpr size_t kBlock = 64;

// What differs between types: four samples, whether they are in [lower, upper] (a bit each), and
// where they are spread to (see internal::Spread).
template <typename C>
struct Four;

template <>
struct Four<float> {
  using Vector = __m128;
  HISTOGRAM_AVX2_INLINE static Vector Load(const std::byte* at) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(at));
  }
  HISTOGRAM_AVX2_INLINE static Vector Fill(float x) { return _mm_set1_ps(x); }
  HISTOGRAM_AVX2_INLINE static int In(Vector x, Vector lower, Vector upper) {
    return _mm_movemask_ps(_mm_and_ps(_mm_cmpge_ps(x, lower), _mm_cmple_ps(x, upper)));
  }
  HISTOGRAM_AVX2_INLINE static __m256d Spread(Vector x, Vector /*lower*/, __m256i half_ulp) {
    const __m256i bits = _mm256_castpd_si256(_mm256_cvtps_pd(_mm_add_ps(x, _mm_setzero_ps())));
    const __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
    return _mm256_castsi256_pd(
        _mm256_add_epi64(bits, _mm256_sub_epi64(_mm256_xor_si256(half_ulp, sign), sign)));
  }
};

template <>
struct Four<double> {
  using Vector = __m256d;
  HISTOGRAM_AVX2_INLINE static Vector Load(const std::byte* at) {
    return _mm256_loadu_pd(reinterpret_cast<const double*>(at));
  }
  HISTOGRAM_AVX2_INLINE static Vector Fill(double x) { return _mm256_set1_pd(x); }
  HISTOGRAM_AVX2_INLINE static int In(Vector x, Vector lower, Vector upper) {
    return _mm256_movemask_pd(
        _mm256_and_pd(_mm256_cmp_pd(x, lower, _CMP_GE_OQ), _mm256_cmp_pd(x, upper, _CMP_LE_OQ)));
  }
  HISTOGRAM_AVX2_INLINE static __m256d Spread(Vector x, Vector /*lower*/, __m256i) { return x; }
};

template <typename C>
struct Four32 {
  using Vector = __m128i;
  HISTOGRAM_AVX2_INLINE static Vector Load(const std::byte* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  }
  HISTOGRAM_AVX2_INLINE static Vector Fill(C x) { return _mm_set1_epi32(static_cast<int32_t>(x)); }
  HISTOGRAM_AVX2_INLINE static int In(Vector x, Vector lower, Vector upper) {
    // As unsigned numbers from the lowest on: one comparison.
    const __m128i from = _mm_sub_epi32(x, lower), span = _mm_sub_epi32(upper, lower);
    return _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(_mm_max_epu32(from, span), span)));
  }
  HISTOGRAM_AVX2_INLINE static __m256d Spread(Vector x, Vector lower, __m256i) {
    // Unsigned to double: as a signed number 2^31 less, and 2^31 more.
    const __m128i from = _mm_sub_epi32(x, lower);
    const __m128i less = _mm_xor_si128(from, _mm_set1_epi32(std::numeric_limits<int32_t>::min()));
    return _mm256_add_pd(_mm256_cvtepi32_pd(less), _mm256_set1_pd(0x1p31));
  }
};
template <>
struct Four<int32_t> : Four32<int32_t> {};
template <>
struct Four<uint32_t> : Four32<uint32_t> {};

template <typename C>
struct Constants {
  typename Four<C>::Vector lower, upper;
  __m256d scale, offset, error, far_error;
  __m256i half_ulp;
  __m128i last;
};

template <typename C>
HISTOGRAM_AVX2_INLINE void SlotsOfFour(const Bins<C>& bins, const Constants<C>& k,
                                       uint32_t bin_count, const std::byte* samples,
                                       uint32_t* slots) {
  using F = Four<C>;
  const typename F::Vector x = F::Load(samples);
  const __m256d position =
      _mm256_add_pd(_mm256_mul_pd(F::Spread(x, k.lower, k.half_ulp), k.scale), k.offset);
  const __m128i bin = _mm256_cvttpd_epi32(position);
  const __m256d rest = _mm256_sub_pd(position, _mm256_cvtepi32_pd(bin));
  const int unsure = _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd(rest, k.error, _CMP_LE_OQ),
                                                     _mm256_cmp_pd(rest, k.far_error, _CMP_GE_OQ)));
  const int in = F::In(x, k.lower, k.upper);
  _mm_store_si128(reinterpret_cast<__m128i*>(slots), _mm_min_epi32(bin, k.last));
  if (in == 0xF && unsure == 0) return;
  for (size_t i = 0; i < kVector; ++i) {
    if ((in >> i & 1) != 0 && (unsure >> i & 1) == 0) continue;
    slots[i] = internal::SlotOf(bins, bin_count, internal::LoadBits<C>(samples + i * sizeof(C)));
  }
}

template <typename C>
HISTOGRAM_AVX2 void CountBlocks(const Bins<C>& bins, uint32_t bin_count, const std::byte* samples,
                                size_t blocks, Counters& counters) {
  const Constants<C> k = {
      .lower = Four<C>::Fill(bins.lower),
      .upper = Four<C>::Fill(bins.upper),
      .scale = _mm256_set1_pd(bins.guess.scale),
      .offset = _mm256_set1_pd(bins.guess.offset),
      .error = _mm256_set1_pd(bins.guess.error),
      .far_error = _mm256_set1_pd(1 - bins.guess.error),
      .half_ulp = _mm256_set1_epi64x(static_cast<int64_t>(bins.guess.half_ulp)),
      .last = _mm_set1_epi32(static_cast<int32_t>(bins.thresholds.size() - 1)),
  };
  for (size_t b = 0; b < blocks; ++b) {
    alignas(64) uint32_t slots[kBlock];
    for (size_t i = 0; i < kBlock; i += kVector, samples += kVector * sizeof(C)) {
      SlotsOfFour<C>(bins, k, bin_count, samples, slots + i);
    }
    counters.AddAll<kBlock>(slots);
  }
}

}  // namespace

void CountTypedAvx2(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  const auto count_as = [&]<typename C>(const Bins<C>& bins) {
    const uint32_t bin_count = plan.binning.bin_count();
    const uint32_t slots = internal::SlotCount(bin_count);
    if (!TablesPay(SamplesOf(runs), slots)) return CountTypedScalar(plan, runs, row);
    Counters counters(slots);
    for (auto [samples, count] : runs) {
      const size_t blocks = count / kBlock;
      CountBlocks<C>(bins, bin_count, samples, blocks, counters);
      for (size_t i = blocks * kBlock; i < count; ++i) {
        ++row[internal::SlotOf(bins, bin_count, internal::LoadBits<C>(samples + i * sizeof(C)))];
      }
    }
    counters.AddTo(row);
  };
  switch (plan.type) {
    case SampleType::kF32:
      return count_as(std::get<Bins<float>>(plan.bins));
    case SampleType::kF64:
      return count_as(std::get<Bins<double>>(plan.bins));
    case SampleType::kU32:
      return count_as(std::get<Bins<uint32_t>>(plan.bins));
    case SampleType::kI32:
      return count_as(std::get<Bins<int32_t>>(plan.bins));
    default:
      return CountTypedScalar(plan, runs, row);
  }
}

}  // namespace histogram::cpu

#endif
