// Counts eight samples of 32 or 64 bits at a time with AVX-512. A multiplication and an addition
// give their positions in double; truncation gives their bins. If a plan's guess is not proven,
// samples are compared with the edge nearest to their position. That edge is computed, if edges
// follow from a step; else it is gathered, for positions near an integer. Without a usable guess, a
// search by key gathers thresholds.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

// An attribute of each function, not a flag of the file: inline functions that the linker shares
// with other files must not need instructions that this processor may lack.
#define HISTOGRAM_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#define HISTOGRAM_AVX512_INLINE HISTOGRAM_AVX512 __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

using internal::Bins;

constexpr size_t kVector = 8;  // samples
// Of 256 to 2,048 samples: 0.8 to 1.9 G samples/s instead of 2.2 to 3.2 (Zen 5, 2026-11-24).
constexpr size_t kBlock = 64;

// What depends on the type of eight samples: comparison, Spread (see internal::Spread), Gather,
// Cell (see internal::Cells) and Value, in double. Integers of 64 bits have no Value: a double does
// not hold them.
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
  HISTOGRAM_AVX512_INLINE static __m512d Value(Vector x) { return _mm512_cvtps_pd(x); }
  HISTOGRAM_AVX512_INLINE static __m256i Cell(Vector x, Vector lower, Vector knee, __m128i shift) {
    return _mm256_srl_epi32(_mm256_sub_epi32(Key(x, knee), Key(lower, knee)), shift);
  }
  // internal::CellKey but for the first bit.
  HISTOGRAM_AVX512_INLINE static __m256i Key(Vector x, Vector knee) {
    const Vector signed_zero = _mm256_set1_ps(-0.0F);
    x = _mm256_add_ps(x, _mm256_setzero_ps());
    const Vector distance = _mm256_add_ps(_mm256_andnot_ps(signed_zero, x), knee);
    return _mm256_xor_si256(
        _mm256_sub_epi32(_mm256_castps_si256(distance), _mm256_castps_si256(knee)),
        _mm256_srai_epi32(_mm256_castps_si256(x), 31));
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
  HISTOGRAM_AVX512_INLINE static __m512d Value(Vector x) { return x; }
  HISTOGRAM_AVX512_INLINE static __m256i Cell(Vector x, Vector lower, Vector knee, __m128i shift) {
    return _mm512_cvtepi64_epi32(
        _mm512_srl_epi64(_mm512_sub_epi64(Key(x, knee), Key(lower, knee)), shift));
  }
  HISTOGRAM_AVX512_INLINE static __m512i Key(Vector x, Vector knee) {
    x = _mm512_add_pd(x, _mm512_setzero_pd());
    const Vector distance = _mm512_add_pd(_mm512_abs_pd(x), knee);
    return _mm512_xor_si512(
        _mm512_sub_epi64(_mm512_castpd_si512(distance), _mm512_castpd_si512(knee)),
        _mm512_srai_epi64(_mm512_castpd_si512(x), 63));
  }
  HISTOGRAM_AVX512_INLINE static __m512d Spread(Vector x, Vector /*lower*/, __m512i) { return x; }
  HISTOGRAM_AVX512_INLINE static Vector Gather(const double* thresholds, __m256i index) {
    return _mm512_i32gather_pd(index, thresholds, 8);
  }
};

// Integers of 32 bits, signed and unsigned.
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
  HISTOGRAM_AVX512_INLINE static __m256i Cell(Vector x, Vector lower, Vector, __m128i shift) {
    return _mm256_srl_epi32(_mm256_sub_epi32(x, lower), shift);
  }
  HISTOGRAM_AVX512_INLINE static __m512d Value(Vector x) {
    return std::is_signed_v<C> ? _mm512_cvtepi32_pd(x) : _mm512_cvtepu32_pd(x);
  }
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
  HISTOGRAM_AVX512_INLINE static __m256i Cell(Vector x, Vector lower, Vector, __m128i shift) {
    return _mm512_cvtepi64_epi32(_mm512_srl_epi64(_mm512_sub_epi64(x, lower), shift));
  }
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

template <typename C>
struct Constants {
  typename Eight<C>::Vector lower, upper;
  __m512d scale, offset, error, far_error, last_position, first_edge, step;
  __m512i half_ulp;
  __m512i normal;  // bits that are 0 in numbers whose positions are those of 0
  __m256i last, below, above, nan, mend, one;
  typename Eight<C>::Vector mend_threshold, knee;
  // For the search.
  const C* thresholds;
  const uint32_t* first;
  __m128i shift;
  int steps;
};

// The kind of a plan's guess (see internal::Guess). kNone: it is not usable.
enum class Guesses : uint8_t { kProven, kMended, kEdges, kUnsure, kNone };

// The positions of eight samples, and their integer parts.
struct Place {
  __m512d position;
  __m256i bin;
};

template <typename C, Guesses kGuesses>
HISTOGRAM_AVX512_INLINE Place PlaceOf(const Constants<C>& k, typename Eight<C>::Vector x) {
  const __m512d spread = Eight<C>::Spread(x, k.lower, k.half_ulp);
  __m512d product;
  // Processors multiply subnormal numbers slowly. Where they move a position by less than a
  // millionth of a bin they count as 0: the comparison with the nearest edge decides.
  if constexpr (std::is_same_v<C, double> && kGuesses == Guesses::kEdges) {
    product = _mm512_maskz_mul_pd(_mm512_test_epi64_mask(_mm512_castpd_si512(x), k.normal), spread,
                                  k.scale);
  } else {
    product = _mm512_mul_pd(spread, k.scale);
  }
  const __m512d position = _mm512_add_pd(product, k.offset);
  return {position, _mm512_cvttpd_epi32(position)};
}

// A bit for each position near an integer.
template <typename C>
HISTOGRAM_AVX512_INLINE __mmask8 Unsure(const Constants<C>& k, const Place& place) {
  const __m512d rest = _mm512_sub_pd(place.position, _mm512_cvtepi32_pd(place.bin));
  return static_cast<__mmask8>(_mm512_cmp_pd_mask(rest, k.error, _CMP_LE_OQ) |
                               _mm512_cmp_pd_mask(rest, k.far_error, _CMP_GE_OQ));
}

// Bins by a comparison with the edge nearest to the position.
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i BinsByEdges(const Constants<C>& k, typename Eight<C>::Vector x,
                                            __m512d position) {
  const __m512d nearest =
      _mm512_min_pd(_mm512_roundscale_pd(position, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                    k.last_position);
  const __m512d edge = _mm512_add_pd(_mm512_mul_pd(nearest, k.step), k.first_edge);
  const __mmask8 below = _mm512_cmp_pd_mask(Eight<C>::Value(x), edge, _CMP_LT_OQ);
  const __m256i bin = _mm512_cvttpd_epi32(nearest);
  return _mm256_mask_sub_epi32(bin, below, bin, k.one);
}

// Bins by a search from the first bin of each sample's cell (see internal::SearchBin). `inside`:
// the samples in [lower, upper].
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i BinsBySearch(const Constants<C>& k, typename Eight<C>::Vector x,
                                             __mmask8 inside) {
  using E = Eight<C>;
  const __m256i cell = _mm256_maskz_mov_epi32(inside, E::Cell(x, k.lower, k.knee, k.shift));
  __m256i bin = _mm256_i32gather_epi32(reinterpret_cast<const int*>(k.first), cell, 4);
  for (int s = k.steps - 1; s >= 0; --s) {
    const __m256i next = _mm256_min_epi32(_mm256_add_epi32(bin, _mm256_set1_epi32(1 << s)), k.last);
    bin = _mm256_mask_mov_epi32(bin, E::NotBelow(x, E::Gather(k.thresholds, next)), next);
  }
  return bin;
}

// Writes the slots of eight samples. Returns the samples in bins whose slots SettleBlock must
// settle.
template <typename C, Guesses kGuesses>
HISTOGRAM_AVX512_INLINE __mmask8 SlotsOfEight(const Constants<C>& k, const std::byte* samples,
                                              uint32_t* slots) {
  using E = Eight<C>;
  const typename E::Vector x = E::Load(samples);
  const __mmask8 from_lower = E::NotBelow(x, k.lower);
  const __mmask8 to_upper = E::NotBelow(k.upper, x);
  Place place{};
  if constexpr (kGuesses == Guesses::kNone) {
    place.bin = BinsBySearch<C>(k, x, _kand_mask8(from_lower, to_upper));
  } else {
    place = PlaceOf<C, kGuesses>(k, x);
  }
  if constexpr (kGuesses == Guesses::kMended) {
    const auto wrong = static_cast<__mmask8>(_mm256_cmpeq_epi32_mask(place.bin, k.mend) &
                                             ~E::NotBelow(x, k.mend_threshold));
    place.bin = _mm256_mask_sub_epi32(place.bin, wrong, place.bin, k.one);
  }
  if constexpr (kGuesses == Guesses::kEdges) place.bin = BinsByEdges<C>(k, x, place.position);
  // A NaN compares with neither bound.
  const __m256i beyond = _mm256_mask_mov_epi32(k.nan, from_lower, k.above);
  __m256i slot = _mm256_mask_mov_epi32(beyond, to_upper, _mm256_min_epi32(place.bin, k.last));
  slot = _mm256_mask_mov_epi32(slot, _kandn_mask8(from_lower, to_upper), k.below);
  _mm256_store_si256(reinterpret_cast<__m256i*>(slots), slot);
  if constexpr (kGuesses != Guesses::kUnsure) return 0;
  return _kand_mask8(Unsure<C>(k, place), _kand_mask8(from_lower, to_upper));
}

// Corrects the slots of a block's samples in bins with positions near an integer, by a comparison
// with the threshold there.
template <typename C>
HISTOGRAM_AVX512 __attribute__((noinline)) void SettleBlock(const Bins<C>& bins,
                                                            const Constants<C>& k,
                                                            const std::byte* samples,
                                                            uint32_t* slots) {
  using E = Eight<C>;
  for (size_t i = 0; i < kBlock; i += kVector) {
    const typename E::Vector x = E::Load(samples + i * sizeof(C));
    const Place place = PlaceOf<C, Guesses::kUnsure>(k, x);
    const auto unsure = static_cast<__mmask8>(Unsure<C>(k, place) & E::NotBelow(x, k.lower) &
                                              E::NotBelow(k.upper, x));
    if (unsure == 0) continue;
    const __m256i nearest = _mm256_min_epi32(
        k.last, _mm512_cvttpd_epi32(_mm512_add_pd(place.position, _mm512_set1_pd(0.5))));
    // The other samples have no valid index: they gather the first threshold.
    const __m256i index = _mm256_maskz_mov_epi32(unsure, nearest);
    const __mmask8 reached = E::NotBelow(x, E::Gather(bins.thresholds.data(), index));
    const __m256i settled =
        _mm256_mask_sub_epi32(nearest, static_cast<__mmask8>(~reached), nearest, k.one);
    _mm256_mask_storeu_epi32(slots + i, unsure, settled);
  }
}

template <Guesses kGuesses, typename C, typename Counts>
HISTOGRAM_AVX512 void CountBlocks(const Bins<C>& bins, uint32_t bin_count, const std::byte* samples,
                                  size_t blocks, Counts& counts) {
  const auto outside = static_cast<int32_t>(bin_count);
  constexpr bool kMended = kGuesses == Guesses::kMended;
  const uint32_t mend = kMended ? bins.guess.mend : 0;
  constexpr int64_t kExponent = 0x7FF0000000000000;
  const bool moves_little = std::numeric_limits<double>::min() * bins.guess.scale < 0x1p-20;
  const Constants<C> k = {
      .lower = Eight<C>::Fill(bins.lower),
      .upper = Eight<C>::Fill(bins.upper),
      .scale = _mm512_set1_pd(bins.guess.scale),
      .offset = _mm512_set1_pd(bins.guess.offset),
      .error = _mm512_set1_pd(bins.guess.error),
      .far_error = _mm512_set1_pd(1 - bins.guess.error),
      .last_position = _mm512_set1_pd(bins.reached - 1),
      .first_edge = _mm512_set1_pd(bins.guess.first_edge),
      .step = _mm512_set1_pd(bins.guess.step),
      .half_ulp = _mm512_set1_epi64(static_cast<int64_t>(bins.guess.half_ulp)),
      .normal = _mm512_set1_epi64(moves_little ? kExponent : -1),
      .last = _mm256_set1_epi32(static_cast<int32_t>(bins.reached - 1)),
      .below = _mm256_set1_epi32(outside + internal::kBelowSlot),
      .above = _mm256_set1_epi32(outside + internal::kAboveSlot),
      .nan = _mm256_set1_epi32(outside + internal::kNanSlot),
      .mend = _mm256_set1_epi32(static_cast<int32_t>(mend)),
      .one = _mm256_set1_epi32(1),
      .mend_threshold = Eight<C>::Fill(kMended ? bins.thresholds[mend] : bins.lower),
      .knee = Eight<C>::Fill(static_cast<C>(bins.cells.knee)),
      .thresholds = bins.thresholds.data(),
      .first = bins.cells.first.data(),
      .shift = _mm_cvtsi32_si128(static_cast<int>(bins.cells.shift)),
      .steps = static_cast<int>(std::bit_width(bins.cells.span_max)),
  };
  // Counts a block while the next one's slots are found. Increments would wait for slots that were
  // just stored (f32, 2,048 bins: 3.0 against 3.8 G samples/s; f64, 65,536: 0.7 against 2.1;
  // bench_typed, Zen 5, 2026-11-24).
  alignas(64) uint32_t slots[2][kBlock];
  for (size_t b = 0; b < blocks; ++b, samples += kBlock * sizeof(C)) {
    FetchAhead<kBlock * sizeof(C)>(samples);
    uint32_t* const now = slots[b & 1];
    __mmask8 unsure = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kBlock; i += kVector) {
      unsure = _kor_mask8(unsure, SlotsOfEight<C, kGuesses>(k, samples + i * sizeof(C), now + i));
    }
    if (kGuesses == Guesses::kUnsure && unsure != 0) SettleBlock<C>(bins, k, samples, now);
    asm volatile("" : "+m"(slots));  // NOLINT(hicpp-no-assembler)
    if (b > 0) counts.template AddAll<kBlock>(slots[(b - 1) & 1]);
  }
  if (blocks > 0) counts.template AddAll<kBlock>(slots[(blocks - 1) & 1]);
}

template <typename C, typename Counts>
auto RunCounter(const internal::Guess& guess) {
  if (!guess.usable()) return CountBlocks<Guesses::kNone, C, Counts>;
  if (guess.proven()) return CountBlocks<Guesses::kProven, C, Counts>;
  if (guess.mendable()) return CountBlocks<Guesses::kMended, C, Counts>;
  if constexpr (sizeof(C) == 4 || std::is_floating_point_v<C>) {
    if (guess.computes_edges()) return CountBlocks<Guesses::kEdges, C, Counts>;
  }
  return CountBlocks<Guesses::kUnsure, C, Counts>;
}

}  // namespace

void CountTypedAvx512(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  std::visit(
      [&]<typename C>(const Bins<C>& bins) {
        const uint32_t bin_count = plan.binning.bin_count();
        CountRuns<internal::PlainSample<C, C>, kBlock>(
            bins, bin_count, runs, row,
            [&]<typename Counts>(const std::byte* samples, size_t blocks, Counts& counts) {
              RunCounter<C, Counts>(bins.guess)(bins, bin_count, samples, blocks, counts);
            });
      },
      plan.bins);
}

}  // namespace histogram::cpu

#endif
