// A sample in memory, the type in which it is compared (plan_data.h), and the key that orders it.
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_SAMPLE_H_
#define HISTOGRAM_KERNELS_SAMPLE_H_

#include <histogram/sample_type.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Functions that code for several instruction sets calls are compiled into each of them.
#define HISTOGRAM_INLINE __attribute__((always_inline))

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

// Whether samples are floats that this machine has no type for.
template <typename S>
inline constexpr bool kIsNarrowFloat =
    std::is_floating_point_v<typename S::Compare>&& std::is_integral_v<typename S::Bits>;

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

// Reads a sample at any alignment.
template <typename Bits>
Bits LoadBits(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

// The value of the sample with these bits, in the least significant bytes; 0.0 for -0.0.
inline double ValueOfBits(uint64_t bits, SampleType type) {
  return VisitSample(type, [&bits]<typename S>(S) {
    const auto sample = LoadBits<typename S::Bits>(reinterpret_cast<const std::byte*>(&bits));
    return static_cast<double>(S::Widen(sample)) + 0.0;
  });
}

// --- Keys: unsigned integers of a sample's width that order as samples do. NaN has the greatest
// key. -0.0 has the key of 0.0.

enum class Ordered : uint8_t { kUnsigned, kSigned, kFloat };

// The key of a sample, and back. `B`: the unsigned integer of the sample's width, and of the key's.
template <typename B, Ordered kOrdered, int kMantissaBits = 0>
struct Keyed {
  using Bits = B;
  static constexpr int kBits = sizeof(B) * 8;
  static constexpr bool kIsFloat = kOrdered == Ordered::kFloat;
  static constexpr B kSign = static_cast<B>(B{1} << (kBits - 1));
  // Without its sign, of floats.
  static constexpr B kInfinity = static_cast<B>((kSign - 1) >> kMantissaBits << kMantissaBits);
  // The least key of a finite sample, and how far it is from the greatest one.
  static constexpr B kLeast = kIsFloat ? static_cast<B>(kSign - kInfinity) : B{0};
  static constexpr B kSpan = static_cast<B>(kIsFloat ? 2 * kInfinity - 1 : -1);

  HISTOGRAM_INLINE static inline B KeyOf(B bits) {
    if constexpr (kOrdered == Ordered::kSigned) return bits ^ kSign;
    if constexpr (kOrdered == Ordered::kFloat) {
      const bool negative = (bits & kSign) != 0;
      const bool nan = static_cast<B>(bits & ~kSign) > kInfinity;
      // Arithmetic, because compilers turn a conditional expression into branches.
      const B key = bits ^ static_cast<B>(kSign | -B{negative});
      return static_cast<B>((key + B{bits == kSign}) | -B{nan});
    }
    return bits;
  }
  static B BitsOf(B key) {
    if constexpr (kOrdered == Ordered::kSigned) return key ^ kSign;
    if constexpr (kOrdered == Ordered::kFloat) {
      return (key & kSign) != 0 ? key ^ kSign : static_cast<B>(~key);
    }
    return key;
  }
};

// The Keyed of a sample.
template <typename S>
constexpr auto KeyedFor() {
  if constexpr (std::is_same_v<S, HalfSample>) {
    return Keyed<uint16_t, Ordered::kFloat, 10>();
  } else if constexpr (std::is_same_v<S, BfloatSample>) {
    return Keyed<uint16_t, Ordered::kFloat, 7>();
  } else if constexpr (std::is_same_v<typename S::Bits, float>) {
    return Keyed<uint32_t, Ordered::kFloat, 23>();
  } else if constexpr (std::is_same_v<typename S::Bits, double>) {
    return Keyed<uint64_t, Ordered::kFloat, 52>();
  } else {
    using Bits = typename S::Bits;
    return Keyed < std::make_unsigned_t<Bits>,
           std::is_signed_v<Bits> ? Ordered::kSigned : Ordered::kUnsigned > ();
  }
}

// Calls visit(K()), where K is the Keyed of the type.
template <typename Visit>
auto VisitKeyed(SampleType type, Visit&& visit) {
  return VisitSample(type, [&]<typename S>(S) { return visit(KeyedFor<S>()); });
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_SAMPLE_H_
