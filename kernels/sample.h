// A sample in memory, and the type in which it is compared (plan_data.h). Thread-safe: the
// functions have no state.
#ifndef HISTOGRAM_KERNELS_SAMPLE_H_
#define HISTOGRAM_KERNELS_SAMPLE_H_

#include <histogram/sample_type.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace histogram::internal {

// The float of the same value; a NaN stays a NaN.
inline float FloatOfHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = half >> 10 & 0x1FU, mantissa = half & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13);
  // A subnormal: mantissa * 2^-24, which is exact in float.
  if (exponent == 0) {
    const float small = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -small : small;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline float FloatOfBfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <typename B, typename C>
struct PlainSample {
  using Bits = B;
  using Compare = C;
  static C Widen(Bits bits) { return static_cast<C>(bits); }
};
struct HalfSample {
  using Bits = uint16_t;
  using Compare = float;
  static float Widen(Bits bits) { return FloatOfHalf(bits); }
};
struct BfloatSample {
  using Bits = uint16_t;
  using Compare = float;
  static float Widen(Bits bits) { return FloatOfBfloat(bits); }
};

// Calls visit(S()), where S is the PlainSample, HalfSample or BfloatSample of the type.
template <typename Visit>
auto VisitSample(SampleType type, Visit&& visit) {
  switch (type) {
    case SampleType::kU8:
      return visit(PlainSample<uint8_t, uint32_t>());
    case SampleType::kI8:
      return visit(PlainSample<int8_t, int32_t>());
    case SampleType::kU16:
      return visit(PlainSample<uint16_t, uint32_t>());
    case SampleType::kI16:
      return visit(PlainSample<int16_t, int32_t>());
    case SampleType::kU32:
      return visit(PlainSample<uint32_t, uint32_t>());
    case SampleType::kI32:
      return visit(PlainSample<int32_t, int32_t>());
    case SampleType::kU64:
      return visit(PlainSample<uint64_t, uint64_t>());
    case SampleType::kI64:
      return visit(PlainSample<int64_t, int64_t>());
    case SampleType::kF16:
      return visit(HalfSample());
    case SampleType::kBf16:
      return visit(BfloatSample());
    case SampleType::kF32:
      return visit(PlainSample<float, float>());
    case SampleType::kF64:
      break;
  }
  return visit(PlainSample<double, double>());
}

// The value of the sample with these bits, in the least significant bytes; 0.0 for -0.0.
inline double ValueOfBits(uint64_t bits, SampleType type) {
  return VisitSample(type, [bits]<typename S>(S) {
    typename S::Bits sample;
    std::memcpy(&sample, &bits, sizeof(sample));  // little-endian
    return static_cast<double>(S::Widen(sample)) + 0.0;
  });
}

// Reads a sample at any alignment.
template <typename Bits>
Bits LoadBits(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_SAMPLE_H_
