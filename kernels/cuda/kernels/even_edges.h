// Even edges that a device computes itself: neither a plan nor tables are made, and nothing is
// copied. A block computes the thresholds of its bins. It finds bins by FindBy::kGuess, those of
// samples of 8 and 16 bits by a search.
//
// Plain data and functions without state, for host and device; thread-safe. On a host they are
// called in the library's floating-point mode.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_EDGES_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_EDGES_H_

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace histogram::cuda {

// How edges are computed: in double; in double, then rounded to float; in float.
enum class EdgeArithmetic : uint8_t { kDouble, kRounded, kFloat };

// Edge i is i * step + lower, rounded twice; the last one is upper.
struct EvenEdges {
  double lower = 0, upper = 0, step = 0;
  uint32_t bins = 0;  // 0: there are none
  EdgeArithmetic arithmetic = EdgeArithmetic::kDouble;

  __host__ __device__ double at(uint32_t i) const {
    if (i == bins) return upper;
    if (arithmetic == EdgeArithmetic::kFloat) {
      return static_cast<float>(i) * static_cast<float>(step) + static_cast<float>(lower);
    }
    const double edge = i * step + lower;
    return arithmetic == EdgeArithmetic::kRounded ? static_cast<float>(edge) : edge;
  }
};

// The edges of `bins` bins. For kRounded and kFloat the ends are rounded to float.
// REQUIRES: lower < upper.
__host__ __device__ inline EvenEdges EvenEdgesOf(double lower, double upper, uint32_t bins,
                                                 EdgeArithmetic arithmetic) {
  EvenEdges edges;
  edges.bins = bins;
  edges.arithmetic = arithmetic;
  if (arithmetic == EdgeArithmetic::kFloat) {
    const float distance = static_cast<float>(upper) - static_cast<float>(lower);
    edges.lower = static_cast<float>(lower);
    edges.step = distance / static_cast<float>(bins);
  } else {
    edges.lower = lower;
    edges.step = (upper - lower) / bins;
  }
  const bool floats = arithmetic != EdgeArithmetic::kDouble;
  edges.upper = floats ? static_cast<double>(static_cast<float>(upper)) : upper;
  return edges;
}

// Whether all edges are finite and each is greater than the one before, with room to spare.
__host__ __device__ inline bool AreDistinct(const EvenEdges& edges) {
  const bool floats = edges.arithmetic != EdgeArithmetic::kDouble;
  const double widest = fmax(fabs(edges.lower), fabs(edges.upper));
  const double unit = floats ? FLT_EPSILON : DBL_EPSILON;
  const double most = floats ? static_cast<double>(FLT_MAX) : DBL_MAX;
  const double least = floats ? static_cast<double>(FLT_MIN) : DBL_MIN;
  return widest <= most && edges.step <= most && edges.step >= least &&
         edges.step >= 4 * unit * widest;
}

// The least sample >= edge of those that are compared as a C. REQUIRES: there is one.
template <typename C>
__host__ __device__ inline C LeastFrom(double edge) {
  if constexpr (std::is_same_v<C, double>) {
    return edge;
  } else if constexpr (std::is_same_v<C, float>) {
#ifdef __CUDA_ARCH__
    return __double2float_ru(edge);
#else
    const auto value = static_cast<float>(edge);
    return static_cast<double>(value) < edge ? std::nextafter(value, HUGE_VALF) : value;
#endif
  } else {
    constexpr C kLeast = std::numeric_limits<C>::min();
    const double whole = ceil(edge);
    return whole <= static_cast<double>(kLeast) ? kLeast : static_cast<C>(whole);
  }
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_EVEN_EDGES_H_
