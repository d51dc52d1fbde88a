// Counts four samples of 32 or 64 bits at a time by the guess: with AVX2, and with NEON, which
// every 64-bit Arm processor has.
//
// Samples with positions near an integer are compared with the edge there if edges follow from a
// step; else they are settled one by one, as samples outside are.
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__x86_64__) || defined(__aarch64__)

// An attribute of each function, not a flag of the file: inline functions that the linker shares
// with other files must not need instructions that this processor may lack.
#if defined(__x86_64__)
#include <immintrin.h>
#define HISTOGRAM_FOUR __attribute__((target("avx2")))
#else
#include <arm_neon.h>
#define HISTOGRAM_FOUR
#endif
#define HISTOGRAM_FOUR_INLINE HISTOGRAM_FOUR __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

constexpr size_t kVector = 4;  // samples
constexpr size_t kBlock = 64;  // as typed_avx512.cc has it; not measured apart

// Vectors of compilers. A comparison gives integers of the same width, whose bits are all set where
// it holds.
template <typename T, size_t kCount>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kCount * sizeof(T))));  // NOLINT(modernize-use-using)
};

template <typename To, typename From>
HISTOGRAM_FOUR_INLINE To As(const From& from) {
  To to;
  static_assert(sizeof(to) == sizeof(from));
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <typename V>
HISTOGRAM_FOUR_INLINE V Least(V a, V b) {
  return a < b ? a : b;
}

// For each processor: Four numbers; Fill, with the same; Mask, whose bit i is set if number i
// holds; Value, in double; Truncated, of numbers below 2^31.
#if defined(__x86_64__)

template <typename T>
using Four = typename VectorOf<T, kVector>::Type;
using Doubles = Four<double>;

template <typename T>
HISTOGRAM_FOUR_INLINE Four<T> Fill(T x) {
  return Four<T>{x, x, x, x};
}

HISTOGRAM_FOUR_INLINE unsigned Mask(Four<int32_t> holds) {
  return static_cast<unsigned>(_mm_movemask_ps(As<__m128>(holds)));
}
HISTOGRAM_FOUR_INLINE unsigned Mask(Four<int64_t> holds) {
  return static_cast<unsigned>(_mm256_movemask_pd(As<__m256d>(holds)));
}

// GCC 12 makes no single instruction of __builtin_convertvector to doubles.
template <typename C>
HISTOGRAM_FOUR_INLINE Doubles Value(Four<C> x) {
  if constexpr (std::is_same_v<C, float>) {
    return _mm256_cvtps_pd(x);
  } else if constexpr (std::is_same_v<C, int32_t>) {
    return _mm256_cvtepi32_pd(As<__m128i>(x));
  } else if constexpr (std::is_same_v<C, uint32_t>) {  // as signed, less 2^31
    return Value<int32_t>(As<Four<int32_t>>(x - (uint32_t{1} << 31))) + 0x1p31;
  } else if constexpr (std::is_same_v<C, uint64_t>) {  // by halves: only their sum is rounded
    const auto high = As<Doubles>(x >> 32 | std::bit_cast<uint64_t>(0x1p84));
    const auto low = As<Doubles>((x & UINT32_MAX) | std::bit_cast<uint64_t>(0x1p52));
    return (high - (0x1p84 + 0x1p52)) + low;
  } else {
    return x;
  }
}
HISTOGRAM_FOUR_INLINE Four<int32_t> Truncated(Doubles x) {
  return __builtin_convertvector(x, Four<int32_t>);
}

#else

// Numbers of 64 bits take two registers.
template <typename T>
struct Pair {
  typename VectorOf<T, 2>::Type low, high;
};
template <typename T>
using Four = std::conditional_t<sizeof(T) == 4, typename VectorOf<T, kVector>::Type, Pair<T>>;
using Doubles = Four<double>;

#define HISTOGRAM_PAIRED(op)                                          \
  template <typename T>                                               \
  HISTOGRAM_FOUR_INLINE auto operator op(Pair<T> a, Pair<T> b) {      \
    using Result = Pair<std::decay_t<decltype((a.low op b.low)[0])>>; \
    return Result{a.low op b.low, a.high op b.high};                  \
  }
HISTOGRAM_PAIRED(+)
HISTOGRAM_PAIRED(-)
HISTOGRAM_PAIRED(*)
HISTOGRAM_PAIRED(&)
HISTOGRAM_PAIRED(|)
HISTOGRAM_PAIRED(^)
HISTOGRAM_PAIRED(<)
HISTOGRAM_PAIRED(<=)
HISTOGRAM_PAIRED(>=)
#undef HISTOGRAM_PAIRED

template <typename T>
HISTOGRAM_FOUR_INLINE Pair<T> Least(Pair<T> a, Pair<T> b) {
  return {Least(a.low, b.low), Least(a.high, b.high)};
}

template <typename T>
HISTOGRAM_FOUR_INLINE Four<T> Fill(T x) {
  if constexpr (sizeof(T) == 4) {
    return Four<T>{x, x, x, x};
  } else {
    return Four<T>{{x, x}, {x, x}};
  }
}

HISTOGRAM_FOUR_INLINE unsigned Mask(Four<int32_t> holds) {
  constexpr Four<uint32_t> kBits = {1, 2, 4, 8};
  return vaddvq_u32(As<Four<uint32_t>>(holds) & kBits);
}
HISTOGRAM_FOUR_INLINE unsigned Mask(Pair<int64_t> holds) {
  return Mask(As<Four<int32_t>>(vcombine_s32(vmovn_s64(holds.low), vmovn_s64(holds.high))));
}

template <typename C>
HISTOGRAM_FOUR_INLINE Doubles Value(Four<C> x) {
  if constexpr (std::is_same_v<C, float>) {
    return {vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
  } else if constexpr (std::is_same_v<C, int32_t>) {
    return {vcvtq_f64_s64(vmovl_s32(vget_low_s32(x))), vcvtq_f64_s64(vmovl_high_s32(x))};
  } else if constexpr (std::is_same_v<C, uint32_t>) {
    return {vcvtq_f64_u64(vmovl_u32(vget_low_u32(x))), vcvtq_f64_u64(vmovl_high_u32(x))};
  } else if constexpr (std::is_same_v<C, uint64_t>) {
    return {vcvtq_f64_u64(x.low), vcvtq_f64_u64(x.high)};
  } else {
    return x;
  }
}
HISTOGRAM_FOUR_INLINE Four<int32_t> Truncated(Doubles x) {
  return vcombine_s32(vmovn_s64(vcvtq_s64_f64(x.low)), vmovn_s64(vcvtq_s64_f64(x.high)));
}

#endif

// The distances of integers from `lower`.
template <typename C>
HISTOGRAM_FOUR_INLINE Four<std::make_unsigned_t<C>> From(Four<C> lower, Four<C> x) {
  using Unsigned = Four<std::make_unsigned_t<C>>;
  return As<Unsigned>(x) - As<Unsigned>(lower);
}

// A bit for each sample in [lower, upper].
template <typename C>
HISTOGRAM_FOUR_INLINE unsigned In(Four<C> x, Four<C> lower, Four<C> upper) {
  if constexpr (std::is_integral_v<C>) {
    return Mask(From<C>(lower, x) <= From<C>(lower, upper));
  } else {
    return Mask((x >= lower) & (x <= upper));
  }
}

// As internal::Spread. Without `kMoves` half_ulp is 0, and floats stay as they are: what Spread
// adds to zeros changes no bin.
template <typename C, bool kMoves>
HISTOGRAM_FOUR_INLINE Doubles Spread(Four<C> x, Four<C> lower, Four<int64_t> half_ulp) {
  if constexpr (std::is_same_v<C, float> && kMoves) {
    const auto bits = As<Four<int64_t>>(Value<float>(x) + Fill(internal::kFromZero));
    const Four<int64_t> sign = bits < Fill(int64_t{0});
    return As<Doubles>(bits + ((half_ulp ^ sign) - sign));
  } else if constexpr (std::is_floating_point_v<C>) {
    return Value<C>(x);
  } else {
    return Value<std::make_unsigned_t<C>>(From<C>(lower, x));
  }
}

template <typename C>
struct Constants {
  Four<C> lower, upper, mend_threshold;
  Doubles scale, offset, error, far_error, last_half, last_position, first_edge, step;
  Four<int64_t> half_ulp;
  Four<int32_t> last, mend;
};

// The kind of a plan's guess (see internal::Guess).
enum class Guesses : uint8_t { kProven, kMended, kEdges, kUnsure };

// Bins by a comparison with the edge nearest to the position.
template <typename C>
HISTOGRAM_FOUR_INLINE Four<int32_t> BinsByEdges(const Constants<C>& k, Four<C> x,
                                                Doubles position) {
  constexpr double kMagic = 0x1.8p52;  // leaves no bits below 1
  const Doubles rounded = (position + Fill(kMagic)) - Fill(kMagic);
  const Doubles nearest = Least(rounded, k.last_position);
  const Doubles edge = nearest * k.step + k.first_edge;
  const auto one_below = As<Doubles>((Value<C>(x) < edge) & As<Four<int64_t>>(Fill(1.0)));
  return Truncated(nearest - one_below);
}

template <typename C, Guesses kGuesses, bool kMoves>
HISTOGRAM_FOUR_INLINE void SlotsOfFour(const internal::Bins<C>& bins, const Constants<C>& k,
                                       uint32_t bin_count, const std::byte* samples,
                                       uint32_t* slots) {
  Four<C> x;
  std::memcpy(&x, samples, sizeof(x));
  const Doubles position = Spread<C, kMoves>(x, k.lower, k.half_ulp) * k.scale + k.offset;
  const Four<int32_t> whole = Truncated(position);
  Four<int32_t> bin = Least(whole, k.last);
  unsigned unsure = 0;
  if constexpr (kGuesses == Guesses::kMended) {
    unsure = Mask(bin == k.mend) & ~In<C>(x, k.mend_threshold, k.upper);
  } else if constexpr (kGuesses != Guesses::kProven) {
    // Near an integer.
    const Doubles rest = position - Value<int32_t>(whole);
    unsure = Mask((rest <= k.error) | (rest >= k.far_error));
  }
  if constexpr (kGuesses == Guesses::kEdges) {
    if (unsure != 0) bin = BinsByEdges<C>(k, x, position);
    unsure = 0;
  } else if constexpr (kGuesses == Guesses::kUnsure) {
    // The first and the last bin are sure at their outer edges.
    if (unsure != 0) unsure &= Mask((position >= Fill(0.5)) & (position < k.last_half));
  }
  std::memcpy(slots, &bin, sizeof(bin));
  const unsigned settled = In<C>(x, k.lower, k.upper) & ~unsure;
  if (settled == 0xF) return;
  for (size_t i = 0; i < kVector; ++i) {
    if ((settled >> i & 1) != 0) continue;
    slots[i] = internal::SlotOf(bins, bin_count, internal::LoadBits<C>(samples + i * sizeof(C)));
  }
}

template <Guesses kGuesses, bool kMoves, typename C, typename Counts>
HISTOGRAM_FOUR void CountBlocks(const internal::Bins<C>& bins, uint32_t bin_count,
                                const std::byte* samples, size_t blocks, Counts& counts) {
  constexpr bool kMended = kGuesses == Guesses::kMended;
  const uint32_t mend = kMended ? bins.guess.mend : 0;
  const Constants<C> k = {
      .lower = Fill(bins.lower),
      .upper = Fill(bins.upper),
      .mend_threshold = Fill(kMended ? bins.thresholds[mend] : bins.lower),
      .scale = Fill(bins.guess.scale),
      .offset = Fill(bins.guess.offset),
      .error = Fill(bins.guess.error),
      .far_error = Fill(1 - bins.guess.error),
      .last_half = Fill(bins.reached - 0.5),
      .last_position = Fill<double>(bins.reached - 1),
      .first_edge = Fill(bins.guess.first_edge),
      .step = Fill(bins.guess.step),
      .half_ulp = Fill(static_cast<int64_t>(bins.guess.half_ulp)),
      .last = Fill(static_cast<int32_t>(bins.reached - 1)),
      .mend = Fill(static_cast<int32_t>(mend)),
  };
  // Counts a block while the next one's slots are found, as typed_avx512.cc does.
  alignas(64) uint32_t slots[2][kBlock];
  for (size_t b = 0; b < blocks; ++b) {
    FetchAhead<kBlock * sizeof(C)>(samples);
    uint32_t* const now = slots[b & 1];
    for (size_t i = 0; i < kBlock; i += kVector, samples += kVector * sizeof(C)) {
      SlotsOfFour<C, kGuesses, kMoves>(bins, k, bin_count, samples, now + i);
    }
    if (b > 0) counts.template AddAll<kBlock>(slots[(b - 1) & 1]);
  }
  if (blocks > 0) counts.template AddAll<kBlock>(slots[(blocks - 1) & 1]);
}

template <bool kMoves, typename C, typename Counts>
auto CounterFor(const internal::Guess& guess) {
  if (guess.proven()) return CountBlocks<Guesses::kProven, kMoves, C, Counts>;
  if (guess.mendable()) return CountBlocks<Guesses::kMended, kMoves, C, Counts>;
  if constexpr (sizeof(C) == 4 || std::is_floating_point_v<C>) {
    if (guess.computes_edges()) return CountBlocks<Guesses::kEdges, kMoves, C, Counts>;
  }
  return CountBlocks<Guesses::kUnsure, kMoves, C, Counts>;
}

}  // namespace

void CountTypedFour(const internal::PlanData& plan, std::span<const Fragment> fragments,
                    uint64_t* row) {
  CountByGuess<kBlock>(plan, fragments, row,
                       []<bool kMoves, typename C, typename Counts>(const internal::Guess& guess) {
                         return CounterFor<kMoves, C, Counts>(guess);
                       });
}

}  // namespace histogram::cpu

#endif
