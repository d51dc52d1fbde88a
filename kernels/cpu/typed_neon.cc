// Counts four samples of 32 or 64 bits at a time with NEON (typed_four.inc). Every 64-bit Arm
// processor has NEON.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/slot.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define HISTOGRAM_FOUR
#define HISTOGRAM_FOUR_INLINE __attribute__((always_inline)) inline

namespace histogram::cpu {
namespace {

// Bit i is set if all bits of number i are set.
HISTOGRAM_FOUR_INLINE unsigned Mask(uint32x4_t x) {
  constexpr uint32_t kBits[4] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(x, vld1q_u32(kBits)));
}
HISTOGRAM_FOUR_INLINE unsigned Mask(uint64x2x2_t x) {
  return Mask(vcombine_u32(vmovn_u64(x.val[0]), vmovn_u64(x.val[1])));
}

// What depends on the type of four samples (see typed_four.inc).
template <typename C>
struct Four;

template <>
struct Four<float> {
  using Vector = float32x4_t;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(at)));
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(float x) { return vdupq_n_f32(x); }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask(vandq_u32(vcgeq_f32(x, lower), vcleq_f32(x, upper)));
  }
  HISTOGRAM_FOUR_INLINE static float64x2x2_t Value(Vector x) {
    return {vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
  }
  HISTOGRAM_FOUR_INLINE static float64x2x2_t Spread(Vector x, Vector /*lower*/, uint64_t half_ulp) {
    const Vector positive_zero = vaddq_f32(x, vdupq_n_f32(0));
    return {Moved(vcvt_f64_f32(vget_low_f32(positive_zero)), half_ulp),
            Moved(vcvt_high_f64_f32(positive_zero), half_ulp)};
  }

 private:
  HISTOGRAM_FOUR_INLINE static float64x2_t Moved(float64x2_t x, uint64_t half_ulp) {
    const int64x2_t bits = vreinterpretq_s64_f64(x);
    const int64x2_t sign = vshrq_n_s64(bits, 63);
    const int64x2_t up = vdupq_n_s64(static_cast<int64_t>(half_ulp));
    return vreinterpretq_f64_s64(vaddq_s64(bits, vsubq_s64(veorq_s64(up, sign), sign)));
  }
};

template <>
struct Four<double> {
  using Vector = float64x2x2_t;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(at);
    return {vreinterpretq_f64_u8(vld1q_u8(bytes)), vreinterpretq_f64_u8(vld1q_u8(bytes + 16))};
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(double x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask(
        {Both(x.val[0], lower.val[0], upper.val[0]), Both(x.val[1], lower.val[1], upper.val[1])});
  }
  HISTOGRAM_FOUR_INLINE static Vector Value(Vector x) { return x; }
  HISTOGRAM_FOUR_INLINE static Vector Spread(Vector x, Vector /*lower*/, uint64_t) { return x; }

 private:
  HISTOGRAM_FOUR_INLINE static uint64x2_t Both(float64x2_t x, float64x2_t lower,
                                               float64x2_t upper) {
    return vandq_u64(vcgeq_f64(x, lower), vcleq_f64(x, upper));
  }
};

// Integers take one comparison, of unsigned distances from `lower`.
template <typename C>
struct Four32 {
  using Vector = uint32x4_t;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    return vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(at)));
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(C x) { return vdupq_n_u32(static_cast<uint32_t>(x)); }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask(vcleq_u32(vsubq_u32(x, lower), vsubq_u32(upper, lower)));
  }
  HISTOGRAM_FOUR_INLINE static float64x2x2_t Value(Vector x) {
    if constexpr (std::is_signed_v<C>) {
      const int32x4_t whole = vreinterpretq_s32_u32(x);
      return {vcvtq_f64_s64(vmovl_s32(vget_low_s32(whole))), vcvtq_f64_s64(vmovl_high_s32(whole))};
    } else {
      return Spread(x, vdupq_n_u32(0), 0);
    }
  }
  HISTOGRAM_FOUR_INLINE static float64x2x2_t Spread(Vector x, Vector lower, uint64_t) {
    const Vector from = vsubq_u32(x, lower);
    return {vcvtq_f64_u64(vmovl_u32(vget_low_u32(from))), vcvtq_f64_u64(vmovl_high_u32(from))};
  }
};
template <>
struct Four<int32_t> : Four32<int32_t> {};
template <>
struct Four<uint32_t> : Four32<uint32_t> {};

template <typename C>
struct Four64 {
  using Vector = uint64x2x2_t;
  HISTOGRAM_FOUR_INLINE static Vector Load(const std::byte* at) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(at);
    return {vreinterpretq_u64_u8(vld1q_u8(bytes)), vreinterpretq_u64_u8(vld1q_u8(bytes + 16))};
  }
  HISTOGRAM_FOUR_INLINE static Vector Fill(C x) {
    return {vdupq_n_u64(static_cast<uint64_t>(x)), vdupq_n_u64(static_cast<uint64_t>(x))};
  }
  HISTOGRAM_FOUR_INLINE static unsigned In(Vector x, Vector lower, Vector upper) {
    return Mask({vcleq_u64(From(x, lower, 0), From(upper, lower, 0)),
                 vcleq_u64(From(x, lower, 1), From(upper, lower, 1))});
  }
  HISTOGRAM_FOUR_INLINE static float64x2x2_t Spread(Vector x, Vector lower, uint64_t) {
    return {vcvtq_f64_u64(From(x, lower, 0)), vcvtq_f64_u64(From(x, lower, 1))};
  }

 private:
  HISTOGRAM_FOUR_INLINE static uint64x2_t From(const Vector& x, const Vector& lower, int half) {
    return vsubq_u64(x.val[half], lower.val[half]);
  }
};
template <>
struct Four<int64_t> : Four64<int64_t> {};
template <>
struct Four<uint64_t> : Four64<uint64_t> {};

struct Positions {
  using Vector = float64x2x2_t;
  HISTOGRAM_FOUR_INLINE static Vector Fill(double x) { return {vdupq_n_f64(x), vdupq_n_f64(x)}; }
  HISTOGRAM_FOUR_INLINE static Vector MultiplyAdd(Vector x, Vector scale, Vector offset) {
    return {vaddq_f64(vmulq_f64(x.val[0], scale.val[0]), offset.val[0]),
            vaddq_f64(vmulq_f64(x.val[1], scale.val[1]), offset.val[1])};
  }
  HISTOGRAM_FOUR_INLINE static unsigned StoreBins(Vector position, Vector error, Vector far_error,
                                                  int32_t last, uint32_t* bins) {
    const int64x2_t low = vcvtq_s64_f64(position.val[0]), high = vcvtq_s64_f64(position.val[1]);
    const int32x4_t bin = vcombine_s32(vmovn_s64(low), vmovn_s64(high));
    vst1q_u32(bins, vreinterpretq_u32_s32(vminq_s32(bin, vdupq_n_s32(last))));
    return Mask({Near(position.val[0], low, error.val[0], far_error.val[0]),
                 Near(position.val[1], high, error.val[1], far_error.val[1])});
  }
  HISTOGRAM_FOUR_INLINE static void StoreBinsByEdges(Vector position, Vector value, Vector last,
                                                     Vector first_edge, Vector step,
                                                     uint32_t* bins) {
    int32x2_t halves[2];
    for (int h = 0; h < 2; ++h) {
      const float64x2_t nearest = vminq_f64(vrndnq_f64(position.val[h]), last.val[h]);
      const float64x2_t edge = vaddq_f64(vmulq_f64(nearest, step.val[h]), first_edge.val[h]);
      const uint64x2_t below = vcltq_f64(value.val[h], edge);
      // A number whose bits are all set is -1.
      halves[h] = vmovn_s64(vaddq_s64(vcvtq_s64_f64(nearest), vreinterpretq_s64_u64(below)));
    }
    vst1q_u32(bins, vreinterpretq_u32_s32(vcombine_s32(halves[0], halves[1])));
  }
  HISTOGRAM_FOUR_INLINE static unsigned Equal(const uint32_t* bins, uint32_t bin) {
    return Mask(vceqq_u32(vld1q_u32(bins), vdupq_n_u32(bin)));
  }

 private:
  HISTOGRAM_FOUR_INLINE static uint64x2_t Near(float64x2_t position, int64x2_t bin,
                                               float64x2_t error, float64x2_t far_error) {
    const float64x2_t rest = vsubq_f64(position, vcvtq_f64_s64(bin));
    return vorrq_u64(vcleq_f64(rest, error), vcgeq_f64(rest, far_error));
  }
};

#include "kernels/cpu/typed_four.inc"

}  // namespace

void CountTypedNeon(const internal::PlanData& plan, SampleRuns runs, uint64_t* row) {
  CountByFours(plan, runs, row);
}

}  // namespace histogram::cpu

#endif
