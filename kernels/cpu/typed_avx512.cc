// Eight samples of 32 or 64 bits at a time: their positions in double by a product and a sum, the
// bins by truncation. Where a plan's guess is not proven, positions near an integer are settled by
// a gather of their thresholds.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

// On each function, not on the file: nothing that the linker may share with other files is compiled
// for instructions that this processor may lack.
#define HISTOGRAM_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#define HISTOGRAM_AVX512_INLINE HISTOGRAM_AVX512 __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

using internal::Bins;

constexpr size_t kVector = 8;  // samples
constexpr size_t kBlock = 64;

// What differs between types: eight samples, compared, spread (see internal::Spread), gathered.
template <typename C>
struct Eight;

template <>
struct Eight<float> {
  using Vector = __m256;
  HISTOGRAM_AVX512_INLINE static Vector Load(const std::byte* at) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  }
  HISTOGRAM_AVX512_INLINE static Vector Fill(float x) { return _mm256_set1_ps(x); }
  HISTOGRAM_AVX512_INLINE static __mmask8 NotBelow(Vector a, Vector b) {
    return _mm256_cmp_ps_mask(a, b, _CMP_GE_OQ);
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 Nan(Vector a) {
    return _mm256_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  }
  HISTOGRAM_AVX512_INLINE static __m512d Spread(Vector x, Vector /*lower*/, __m512i half_ulp) {
    const __m512i bits =
        _mm512_castpd_si512(_mm512_cvtps_pd(_mm256_add_ps(x, _mm256_setzero_ps())));
    const __m512i sign = _mm512_srai_epi64(bits, 63);
    return _mm512_castsi512_pd(
        _mm512_add_epi64(bits, _mm512_sub_epi64(_mm512_xor_si512(half_ulp, sign), sign)));
  }
  HISTOGRAM_AVX512_INLINE static Vector Gather(const float* thresholds, __m256i index) {
    return _mm256_i32gather_ps(thresholds, index, 4);
  }
};

template <>
struct Eight<double> {
  using Vector = __m512d;
  HISTOGRAM_AVX512_INLINE static Vector Load(const std::byte* at) {
    return _mm512_loadu_pd(reinterpret_cast<const double*>(at));
  }
  HISTOGRAM_AVX512_INLINE static Vector Fill(double x) { return _mm512_set1_pd(x); }
  HISTOGRAM_AVX512_INLINE static __mmask8 NotBelow(Vector a, Vector b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ);
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 Nan(Vector a) {
    return _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q);
  }
  HISTOGRAM_AVX512_INLINE static __m512d Spread(Vector x, Vector /*lower*/, __m512i) { return x; }
  HISTOGRAM_AVX512_INLINE static Vector Gather(const double* thresholds, __m256i index) {
    return _mm512_i32gather_pd(index, thresholds, 8);
  }
};

// Integers of 32 bits, with a sign or without.
template <typename C>
struct Eight32 {
  using Vector = __m256i;
  HISTOGRAM_AVX512_INLINE static Vector Load(const std::byte* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }
  HISTOGRAM_AVX512_INLINE static Vector Fill(C x) {
    return _mm256_set1_epi32(static_cast<int32_t>(x));
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 NotBelow(Vector a, Vector b) {
    return std::is_signed_v<C> ? _mm256_cmpge_epi32_mask(a, b) : _mm256_cmpge_epu32_mask(a, b);
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 Nan(Vector /*a*/) { return 0; }
  HISTOGRAM_AVX512_INLINE static __m512d Spread(Vector x, Vector lower, __m512i) {
    return _mm512_cvtepu32_pd(_mm256_sub_epi32(x, lower));
  }
  HISTOGRAM_AVX512_INLINE static Vector Gather(const C* thresholds, __m256i index) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(thresholds), index, 4);
  }
};
template <>
struct Eight<int32_t> : Eight32<int32_t> {};
template <>
struct Eight<uint32_t> : Eight32<uint32_t> {};

// Integers of 64 bits.
template <typename C>
struct Eight64 {
  using Vector = __m512i;
  HISTOGRAM_AVX512_INLINE static Vector Load(const std::byte* at) { return _mm512_loadu_si512(at); }
  HISTOGRAM_AVX512_INLINE static Vector Fill(C x) {
    return _mm512_set1_epi64(static_cast<int64_t>(x));
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 NotBelow(Vector a, Vector b) {
    return std::is_signed_v<C> ? _mm512_cmpge_epi64_mask(a, b) : _mm512_cmpge_epu64_mask(a, b);
  }
  HISTOGRAM_AVX512_INLINE static __mmask8 Nan(Vector /*a*/) { return 0; }
  HISTOGRAM_AVX512_INLINE static __m512d Spread(Vector x, Vector lower, __m512i) {
    return _mm512_cvtepu64_pd(_mm512_sub_epi64(x, lower));
  }
  HISTOGRAM_AVX512_INLINE static Vector Gather(const C* thresholds, __m256i index) {
    return _mm512_i32gather_epi64(index, reinterpret_cast<const long long*>(thresholds), 8);
  }
};
template <>
struct Eight<int64_t> : Eight64<int64_t> {};
template <>
struct Eight<uint64_t> : Eight64<uint64_t> {};

struct Outside {
  uint64_t below = 0, above = 0, nan = 0;
};

// The bins of the samples of `unsure`, whose positions are near an integer.
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i Settle(const Bins<C>& bins, typename Eight<C>::Vector x,
                                       __m512d position, __m256i bin, __m256i last,
                                       __mmask8 unsure) {
  const __m256i nearest =
      _mm256_min_epi32(last, _mm512_cvttpd_epi32(_mm512_add_pd(position, _mm512_set1_pd(0.5))));
  // Only `unsure` samples have a position that is an index; the others gather the first threshold.
  const __m256i index = _mm256_maskz_mov_epi32(unsure, nearest);
  const __mmask8 reached = Eight<C>::NotBelow(x, Eight<C>::Gather(bins.thresholds.data(), index));
  const __m256i settled = _mm256_mask_sub_epi32(nearest, static_cast<__mmask8>(~reached), nearest,
                                                _mm256_set1_epi32(1));
  return _mm256_mask_mov_epi32(bin, unsure, settled);
}

template <typename C>
struct Constants {
  typename Eight<C>::Vector lower, upper;
  __m512d scale, offset, error, far_error;
  __m512i half_ulp;
  __m256i last, discarded;
};

// Writes the slots of eight samples; those outside are counted in `outside`.
template <typename C, bool kProven>
HISTOGRAM_AVX512_INLINE void SlotsOfEight(const Bins<C>& bins, const Constants<C>& k,
                                          const std::byte* samples, uint32_t* slots,
                                          Outside& outside) {
  using E = Eight<C>;
  const typename E::Vector x = E::Load(samples);
  const __mmask8 from_lower = E::NotBelow(x, k.lower);
  const __mmask8 to_upper = E::NotBelow(k.upper, x);
  const auto in = static_cast<__mmask8>(from_lower & to_upper);
  const __m512d position =
      _mm512_add_pd(_mm512_mul_pd(E::Spread(x, k.lower, k.half_ulp), k.scale), k.offset);
  __m256i bin = _mm512_cvttpd_epi32(position);
  if constexpr (!kProven) {
    const __m512d rest = _mm512_sub_pd(position, _mm512_cvtepi32_pd(bin));
    const auto unsure = static_cast<__mmask8>((_mm512_cmp_pd_mask(rest, k.error, _CMP_LE_OQ) |
                                               _mm512_cmp_pd_mask(rest, k.far_error, _CMP_GE_OQ)) &
                                              in);
    if (unsure != 0) bin = Settle(bins, x, position, bin, k.last, unsure);
  }
  bin = _mm256_min_epi32(bin, k.last);
  if (in != 0xFF) {
    bin = _mm256_mask_mov_epi32(k.discarded, in, bin);
    const auto nan = static_cast<unsigned>(E::Nan(x));
    const unsigned above = ~static_cast<unsigned>(to_upper) & 0xFFU & ~nan;
    outside.nan += static_cast<unsigned>(__builtin_popcount(nan));
    outside.above += static_cast<unsigned>(__builtin_popcount(above));
    outside.below += static_cast<unsigned>(
        __builtin_popcount(~static_cast<unsigned>(in) & 0xFFU & ~nan & ~above));
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(slots), bin);
}

template <typename C, bool kProven>
HISTOGRAM_AVX512 void CountBlocks(const Bins<C>& bins, const std::byte* samples, size_t blocks,
                                  Counters& counters, Outside& outside) {
  const Constants<C> k = {
      .lower = Eight<C>::Fill(bins.lower),
      .upper = Eight<C>::Fill(bins.upper),
      .scale = _mm512_set1_pd(bins.guess.scale),
      .offset = _mm512_set1_pd(bins.guess.offset),
      .error = _mm512_set1_pd(bins.guess.error),
      .far_error = _mm512_set1_pd(1 - bins.guess.error),
      .half_ulp = _mm512_set1_epi64(static_cast<int64_t>(bins.guess.half_ulp)),
      .last = _mm256_set1_epi32(static_cast<int32_t>(bins.thresholds.size() - 1)),
      .discarded = _mm256_set1_epi32(static_cast<int32_t>(counters.discarded())),
  };
  Outside seen;
  for (size_t b = 0; b < blocks; ++b) {
    alignas(64) uint32_t slots[kBlock];
    for (size_t i = 0; i < kBlock; i += kVector, samples += kVector * sizeof(C)) {
      SlotsOfEight<C, kProven>(bins, k, samples, slots + i, seen);
    }
    // The slots go through memory. Where the compiler keeps them in registers (it does for
    // integers), increments in shuffled order run at a fifth of the speed on Zen 5: i32 0.31
    // against 1.5 to 2.0 G samples/s of a busy core (bench_typed, 2026-11-24).
    asm volatile("" : "+m"(slots));  // NOLINT(hicpp-no-assembler)
    counters.AddAll<kBlock>(slots);
  }
  outside.below += seen.below;
  outside.above += seen.above;
  outside.nan += seen.nan;
}

}  // namespace

void CountTypedAvx512(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  std::visit(
      [&]<typename C>(const Bins<C>& bins) {
        const uint32_t bin_count = plan.binning.bin_count();
        const uint32_t slots = internal::SlotCount(bin_count);
        if (!TablesPay(SamplesOf(runs), slots)) return CountTypedScalar(plan, runs, row);
        Counters counters(slots);
        Outside outside;
        for (auto [samples, count] : runs) {
          const size_t blocks = count / kBlock;
          if (bins.guess.proven()) {
            CountBlocks<C, true>(bins, samples, blocks, counters, outside);
          } else {
            CountBlocks<C, false>(bins, samples, blocks, counters, outside);
          }
          for (size_t i = blocks * kBlock; i < count; ++i) {
            ++row[internal::SlotOf(bins, bin_count,
                                   internal::LoadBits<C>(samples + i * sizeof(C)))];
          }
        }
        counters.AddTo(row);
        row[bin_count + internal::kBelowSlot] += outside.below;
        row[bin_count + internal::kAboveSlot] += outside.above;
        row[bin_count + internal::kNanSlot] += outside.nan;
      },
      plan.bins);
}

}  // namespace histogram::cpu

#endif
