// The doubles next to a value. Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_ROUNDED_H_
#define HISTOGRAM_KERNELS_ROUNDED_H_

#include <cmath>
#include <limits>
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

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ROUNDED_H_
