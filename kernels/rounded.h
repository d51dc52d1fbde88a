// The doubles next to a value, and the values next to a double. Thread-safe: functions without
// state.
#ifndef HISTOGRAM_KERNELS_ROUNDED_H_
#define HISTOGRAM_KERNELS_ROUNDED_H_

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

namespace histogram::internal {

// The value as a double: the greatest that is not above it, or the least that is not below it.
template <typename C>
double Rounded(C value, bool up) {
  auto rounded = static_cast<double>(value);
  if constexpr (sizeof(C) == 8 && std::is_integral_v<C>) {
    // 2^63 or 2^64 is no value of C; it is greater than every value.
    const bool greatest = rounded >= std::ldexp(1.0, std::numeric_limits<C>::digits);
    const bool above = greatest || static_cast<C>(rounded) > value;
    const bool below = !greatest && static_cast<C>(rounded) < value;
    const double infinity = std::numeric_limits<double>::infinity();
    if (up ? below : above) rounded = std::nextafter(rounded, up ? infinity : -infinity);
  }
  return rounded;
}

// With kUp the least value of C that is >= `edge`, else the greatest that is <= it, and never -0.0;
// nullopt if there is none.
template <typename C, bool kUp>
std::optional<C> Rounded(double edge) {
  if constexpr (std::is_same_v<C, double>) {
    return edge + 0.0;
  } else if constexpr (std::is_same_v<C, float>) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    auto value = static_cast<float>(edge);
    const auto rounded = static_cast<double>(value);
    if (kUp ? rounded < edge : rounded > edge) {
      value = std::nextafter(value, kUp ? kInfinity : -kInfinity);
    }
    return value + 0.0F;
  } else {
    using Limits = std::numeric_limits<C>;
    const double whole = kUp ? std::ceil(edge) : std::floor(edge);
    const auto least = static_cast<double>(Limits::min());
    // 2^bits is the least double that is too large.
    const double end = std::ldexp(1.0, Limits::digits);
    if (whole < least) return kUp ? std::optional<C>(Limits::min()) : std::nullopt;
    if (whole >= end) return kUp ? std::nullopt : std::optional<C>(Limits::max());
    return static_cast<C>(whole);
  }
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ROUNDED_H_
