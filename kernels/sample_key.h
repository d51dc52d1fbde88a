// The keys of samples: unsigned integers of a sample's width that order as samples do. NaN has the
// greatest key. -0.0 has the key of 0.0.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_SAMPLE_KEY_H_
#define HISTOGRAM_KERNELS_SAMPLE_KEY_H_

#include <histogram/sample_type.h>

#include <cstdint>
#include <type_traits>

#include "kernels/sample.h"

// What is called by functions for several instruction sets is compiled into each of them.
#if defined(__GNUC__)
#define HISTOGRAM_INLINE __attribute__((always_inline))
#else
#define HISTOGRAM_INLINE
#endif

namespace histogram::internal {

enum class Ordered : uint8_t { kUnsigned, kSigned, kFloat };

// The key of a sample, and back. `B`: the unsigned integer of the sample's width, and of the key's.
template <typename B, Ordered kOrdered, int kMantissaBits = 0>
struct Keyed {
  using Bits = B;
  static constexpr int kBits = sizeof(B) * 8;
  static constexpr B kSign = static_cast<B>(B{1} << (kBits - 1));

  HISTOGRAM_INLINE static inline B KeyOf(B bits) {
    if constexpr (kOrdered == Ordered::kSigned) return bits ^ kSign;
    if constexpr (kOrdered == Ordered::kFloat) {
      constexpr B kInfinity = static_cast<B>((kSign - 1) >> kMantissaBits << kMantissaBits);
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

// The Keyed of a sample of sample.h.
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

#endif  // HISTOGRAM_KERNELS_SAMPLE_KEY_H_
