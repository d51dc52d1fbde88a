// Counts eight samples of 32 or 64 bits at a time with AVX-512. A multiplication and an addition
// give their positions in double; truncation gives their bins. If a plan's guess is not proven,
// samples are compared with the edge nearest to their position. That edge is computed, if edges
// follow from a step; else it is gathered, for positions near an integer. Without a usable guess, a
// search by key gathers thresholds.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
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
// Blocks of 256 to 2,048 make it 0.8 to 1.9 G samples/s instead of 2.2 to 3.2 (Zen 5, 2026-11-24).
constexpr size_t kBlock = 64;

// Vectors of compilers.
template <typename T>
struct EightOf {
  typedef T Type __attribute__((vector_size(kVector * sizeof(T))));  // NOLINT(modernize-use-using)
};
template <typename T>
using Eight = typename EightOf<T>::Type;

template <typename To, typename From>
HISTOGRAM_AVX512_INLINE To As(const From& from) {
  To to;
  static_assert(sizeof(to) == sizeof(from));
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
template <typename C>
HISTOGRAM_AVX512_INLINE Eight<C> Load(const std::byte* at) {
  Eight<C> x;
  std::memcpy(&x, at, sizeof(x));
  return x;
}
template <typename C>
HISTOGRAM_AVX512_INLINE Eight<C> Fill(C x) {
  return Eight<C>{x, x, x, x, x, x, x, x};
}

template <typename C>
HISTOGRAM_AVX512_INLINE __mmask8 NotBelow(Eight<C> a, Eight<C> b) {
  if constexpr (std::is_same_v<C, float>) return _mm256_cmp_ps_mask(a, b, _CMP_GE_OQ);
  if constexpr (std::is_same_v<C, double>) return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ);
  if constexpr (std::is_same_v<C, int32_t>) {
    return _mm256_cmpge_epi32_mask(As<__m256i>(a), As<__m256i>(b));
  }
  if constexpr (std::is_same_v<C, uint32_t>) {
    return _mm256_cmpge_epu32_mask(As<__m256i>(a), As<__m256i>(b));
  }
  if constexpr (std::is_same_v<C, int64_t>) {
    return _mm512_cmpge_epi64_mask(As<__m512i>(a), As<__m512i>(b));
  }
  if constexpr (std::is_same_v<C, uint64_t>) {
    return _mm512_cmpge_epu64_mask(As<__m512i>(a), As<__m512i>(b));
  }
}

// In double, which rounds integers of 64 bits.
template <typename C>
HISTOGRAM_AVX512_INLINE __m512d Value(Eight<C> x) {
  if constexpr (std::is_same_v<C, float>) return _mm512_cvtps_pd(x);
  if constexpr (std::is_same_v<C, int32_t>) return _mm512_cvtepi32_pd(As<__m256i>(x));
  if constexpr (std::is_same_v<C, uint32_t>) return _mm512_cvtepu32_pd(As<__m256i>(x));
  if constexpr (std::is_same_v<C, int64_t>) return _mm512_cvtepi64_pd(As<__m512i>(x));
  if constexpr (std::is_same_v<C, uint64_t>) return _mm512_cvtepu64_pd(As<__m512i>(x));
  if constexpr (std::is_same_v<C, double>) return x;
}

// As internal::Spread. Without `kMoves` half_ulp is 0, and floats stay as they are: what Spread
// adds to zeros changes no bin.
template <typename C, bool kMoves>
HISTOGRAM_AVX512_INLINE __m512d Spread(Eight<C> x, Eight<C> lower, __m512i half_ulp) {
  if constexpr (std::is_same_v<C, float> && kMoves) {
    const auto bits = As<__m512i>(Value<float>(x) + Fill(internal::kFromZero));
    const __m512i sign = _mm512_srai_epi64(bits, 63);
    return As<__m512d>(
        _mm512_add_epi64(bits, _mm512_sub_epi64(_mm512_xor_si512(half_ulp, sign), sign)));
  } else if constexpr (std::is_floating_point_v<C>) {
    return Value<C>(x);
  } else {
    using Unsigned = Eight<std::make_unsigned_t<C>>;
    return Value<std::make_unsigned_t<C>>(As<Unsigned>(x) - As<Unsigned>(lower));
  }
}

// internal::CellKey but for the first bit.
template <typename C, typename Bits = internal::KeyBits<C>>
HISTOGRAM_AVX512_INLINE Eight<Bits> Key(Eight<C> x, Eight<C> knee) {
  if constexpr (std::is_floating_point_v<C>) {
    using Signed = std::make_signed_t<Bits>;
    x = x + C{0};
    const auto magnitude = As<Eight<C>>(As<Eight<Bits>>(x) & (~Bits{0} >> 1));
    const Eight<Bits> distance = As<Eight<Bits>>(magnitude + knee) - As<Eight<Bits>>(knee);
    return distance ^ As<Eight<Bits>>(As<Eight<Signed>>(x) >> (sizeof(C) * 8 - 1));
  } else {
    return As<Eight<Bits>>(x);
  }
}

// See internal::Cells.
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i Cell(Eight<C> x, Eight<C> lower, C knee, __m128i shift) {
  if (std::is_integral_v<C> && knee != 0) {
    return Cell<double>(Value<C>(x), Value<C>(lower), static_cast<double>(knee), shift);
  }
  const auto from = Key<C>(x, Fill(knee)) - Key<C>(lower, Fill(knee));
  if constexpr (sizeof(C) == 4) return _mm256_srl_epi32(As<__m256i>(from), shift);
  if constexpr (sizeof(C) == 8) {
    return _mm512_cvtepi64_epi32(_mm512_srl_epi64(As<__m512i>(from), shift));
  }
}

template <typename C>
HISTOGRAM_AVX512_INLINE Eight<C> Gather(const C* thresholds, __m256i index) {
  if constexpr (sizeof(C) == 4)
    return As<Eight<C>>(_mm256_i32gather_epi32(reinterpret_cast<const int*>(thresholds), index, 4));
  if constexpr (sizeof(C) == 8)
    return As<Eight<C>>(
        _mm512_i32gather_epi64(index, reinterpret_cast<const long long*>(thresholds), 8));
}

template <typename C>
struct Constants {
  Eight<C> lower, upper;
  __m512d scale, offset, error, first_position, last_position, first_edge, step;
  __m512i half_ulp;
  __m512i normal;  // bits that are 0 in numbers whose positions are those of 0
  __m256i last, below, above, nan, mend, one;
  Eight<C> mend_threshold;
  // For the search.
  C knee;
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

template <typename C, Guesses kGuesses, bool kMoves>
HISTOGRAM_AVX512_INLINE Place PlaceOf(const Constants<C>& k, Eight<C> x) {
  const __m512d spread = Spread<C, kMoves>(x, k.lower, k.half_ulp);
  __m512d product;
  // Processors multiply subnormal numbers slowly. Where they move a position by less than a
  // millionth of a bin they count as 0: the comparison with the nearest edge decides.
  if constexpr (std::is_same_v<C, double> && kGuesses == Guesses::kEdges) {
    product =
        _mm512_maskz_mul_pd(_mm512_test_epi64_mask(As<__m512i>(x), k.normal), spread, k.scale);
  } else {
    product = _mm512_mul_pd(spread, k.scale);
  }
  const __m512d position = _mm512_add_pd(product, k.offset);
  return {position, _mm512_cvttpd_epi32(position)};
}

HISTOGRAM_AVX512_INLINE __m512d Nearest(__m512d position) {
  return _mm512_roundscale_pd(position, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// A bit for each position near an integer between two bins. Samples in no bin have no such
// position, but integers below `lower`, whose distance from it wraps around, may have one.
template <typename C>
HISTOGRAM_AVX512_INLINE __mmask8 Unsure(const Constants<C>& k, __m512d position) {
  const __m512d between =
      _mm512_min_pd(_mm512_max_pd(Nearest(position), k.first_position), k.last_position);
  return _mm512_cmp_pd_mask(_mm512_abs_pd(_mm512_sub_pd(position, between)), k.error, _CMP_LE_OQ);
}

// Bins by a comparison with the edge nearest to the position.
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i BinsByEdges(const Constants<C>& k, Eight<C> x, __m512d position) {
  const __m512d nearest = _mm512_min_pd(Nearest(position), k.last_position);
  const __m512d edge = _mm512_add_pd(_mm512_mul_pd(nearest, k.step), k.first_edge);
  const __mmask8 below = _mm512_cmp_pd_mask(Value<C>(x), edge, _CMP_LT_OQ);
  const __m256i bin = _mm512_cvttpd_epi32(nearest);
  return _mm256_mask_sub_epi32(bin, below, bin, k.one);
}

// Bins by a search from the first bin of each sample's cell (see internal::SearchBin). `inside`:
// the samples in [lower, upper].
template <typename C>
HISTOGRAM_AVX512_INLINE __m256i BinsBySearch(const Constants<C>& k, Eight<C> x, __mmask8 inside) {
  const __m256i cell = _mm256_maskz_mov_epi32(inside, Cell<C>(x, k.lower, k.knee, k.shift));
  __m256i bin = _mm256_i32gather_epi32(reinterpret_cast<const int*>(k.first), cell, 4);
  for (int s = k.steps - 1; s >= 0; --s) {
    const __m256i next = _mm256_min_epi32(_mm256_add_epi32(bin, _mm256_set1_epi32(1 << s)), k.last);
    bin = _mm256_mask_mov_epi32(bin, NotBelow<C>(x, Gather<C>(k.thresholds, next)), next);
  }
  return bin;
}

// Writes the slots of eight samples. Returns the samples in bins whose slots SettleBlock must
// settle.
template <typename C, Guesses kGuesses, bool kMoves>
HISTOGRAM_AVX512_INLINE __mmask8 SlotsOfEight(const Constants<C>& k, const std::byte* samples,
                                              uint32_t* slots) {
  const Eight<C> x = Load<C>(samples);
  const __mmask8 from_lower = NotBelow<C>(x, k.lower);
  const __mmask8 to_upper = NotBelow<C>(k.upper, x);
  Place place{};
  if constexpr (kGuesses == Guesses::kNone) {
    place.bin = BinsBySearch<C>(k, x, _kand_mask8(from_lower, to_upper));
  } else {
    place = PlaceOf<C, kGuesses, kMoves>(k, x);
  }
  if constexpr (kGuesses == Guesses::kMended) {
    const auto wrong = static_cast<__mmask8>(_mm256_cmpeq_epi32_mask(place.bin, k.mend) &
                                             ~NotBelow<C>(x, k.mend_threshold));
    place.bin = _mm256_mask_sub_epi32(place.bin, wrong, place.bin, k.one);
  }
  if constexpr (kGuesses == Guesses::kEdges) place.bin = BinsByEdges<C>(k, x, place.position);
  // A NaN compares with neither bound.
  const __m256i beyond = _mm256_mask_mov_epi32(k.nan, from_lower, k.above);
  __m256i slot = _mm256_mask_mov_epi32(beyond, to_upper, _mm256_min_epi32(place.bin, k.last));
  slot = _mm256_mask_mov_epi32(slot, _kandn_mask8(from_lower, to_upper), k.below);
  _mm256_store_si256(reinterpret_cast<__m256i*>(slots), slot);
  if constexpr (kGuesses != Guesses::kUnsure) return 0;
  return Unsure<C>(k, place.position);
}

// Corrects the slots of a block's samples in bins with positions near an integer, by a comparison
// with the threshold there.
template <typename C>
HISTOGRAM_AVX512 __attribute__((noinline)) void SettleBlock(const Bins<C>& bins,
                                                            const Constants<C>& k,
                                                            const std::byte* samples,
                                                            uint32_t* slots) {
  for (size_t i = 0; i < kBlock; i += kVector) {
    const Eight<C> x = Load<C>(samples + i * sizeof(C));
    const Place place = PlaceOf<C, Guesses::kUnsure, /*kMoves=*/true>(k, x);
    const __mmask8 unsure = _kand_mask8(NotBelow<C>(x, k.lower), Unsure<C>(k, place.position));
    if (unsure == 0) continue;
    const __m256i nearest = _mm256_min_epi32(
        k.last, _mm512_cvttpd_epi32(_mm512_add_pd(place.position, _mm512_set1_pd(0.5))));
    // The other samples have no valid index: they gather the first threshold.
    const __m256i index = _mm256_maskz_mov_epi32(unsure, nearest);
    const __mmask8 reached = NotBelow<C>(x, Gather<C>(bins.thresholds.data(), index));
    const __m256i settled =
        _mm256_mask_sub_epi32(nearest, static_cast<__mmask8>(~reached), nearest, k.one);
    _mm256_mask_storeu_epi32(slots + i, unsure, settled);
  }
}

template <Guesses kGuesses, bool kMoves, typename C, typename Counts>
HISTOGRAM_AVX512 void CountBlocks(const Bins<C>& bins, uint32_t bin_count, const std::byte* samples,
                                  size_t blocks, Counts& counts) {
  const auto outside = static_cast<int32_t>(bin_count);
  constexpr bool kMended = kGuesses == Guesses::kMended;
  const uint32_t mend = kMended ? bins.guess.mend : 0;
  constexpr int64_t kExponent = 0x7FF0000000000000;
  const bool moves_little = std::numeric_limits<double>::min() * bins.guess.scale < 0x1p-20;
  const Constants<C> k = {
      .lower = Fill<C>(bins.lower),
      .upper = Fill<C>(bins.upper),
      .scale = _mm512_set1_pd(bins.guess.scale),
      .offset = _mm512_set1_pd(bins.guess.offset),
      .error = _mm512_set1_pd(bins.guess.error),
      .first_position = _mm512_set1_pd(1),
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
      .mend_threshold = Fill<C>(kMended ? bins.thresholds[mend] : bins.lower),
      .knee = static_cast<C>(bins.cells.knee),
      .thresholds = bins.thresholds.data(),
      .first = bins.cells.first.data(),
      .shift = _mm_cvtsi32_si128(static_cast<int>(bins.cells.shift)),
      .steps = static_cast<int>(std::bit_width(bins.cells.span_max)),
  };
  // Counts a block while the next one's slots are found. Increments would wait for slots that were
  // just stored (f32, 2,048 bins: 3.0 against 3.8 G samples/s; f64, 65,536: 0.7 against 2.1;
  // bench_typed, Zen 5, 53a16484).
  alignas(64) uint32_t slots[2][kBlock];
  for (size_t b = 0; b < blocks; ++b, samples += kBlock * sizeof(C)) {
    FetchAhead<kBlock * sizeof(C)>(samples);
    uint32_t* const now = slots[b & 1];
    __mmask8 unsure = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kBlock; i += kVector) {
      unsure = _kor_mask8(unsure,
                          SlotsOfEight<C, kGuesses, kMoves>(k, samples + i * sizeof(C), now + i));
    }
    if (kGuesses == Guesses::kUnsure && unsure != 0) SettleBlock<C>(bins, k, samples, now);
    asm volatile("" : "+m"(slots));  // NOLINT(hicpp-no-assembler)
    if (b > 0) counts.template AddAll<kBlock>(slots[(b - 1) & 1]);
  }
  if (blocks > 0) counts.template AddAll<kBlock>(slots[(blocks - 1) & 1]);
}

template <bool kMoves, typename C, typename Counts>
auto CounterFor(const internal::Guess& guess) {
  if (!guess.usable()) return CountBlocks<Guesses::kNone, kMoves, C, Counts>;
  if (guess.proven()) return CountBlocks<Guesses::kProven, kMoves, C, Counts>;
  if (guess.mendable()) return CountBlocks<Guesses::kMended, kMoves, C, Counts>;
  if constexpr (sizeof(C) == 4 || std::is_floating_point_v<C>) {
    if (guess.computes_edges()) return CountBlocks<Guesses::kEdges, kMoves, C, Counts>;
  }
  return CountBlocks<Guesses::kUnsure, kMoves, C, Counts>;
}

}  // namespace

void CountTypedAvx512(const internal::PlanData& plan, std::span<const Fragment> fragments,
                      uint64_t* row) {
  CountByGuess<kBlock>(plan, fragments, row,
                       []<bool kMoves, typename C, typename Counts>(const internal::Guess& guess) {
                         return CounterFor<kMoves, C, Counts>(guess);
                       });
}

}  // namespace histogram::cpu

#endif
