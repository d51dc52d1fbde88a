#include "kernels/linspace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace histogram::internal {
namespace {

double RoundedToHalf(double value) {
  const double size = std::fabs(value);
  if (!(size < 65520)) return value + value * std::numeric_limits<double>::infinity();
  // Adding this leaves 10 bits below the first, or those above 2^-24.
  constexpr uint64_t kLeastExponent = 1023 - 14;
  const uint64_t exponent = std::max(std::bit_cast<uint64_t>(size) >> 52, kLeastExponent);
  const auto magic = std::bit_cast<double>((exponent + 42) << 52);
  return std::copysign(size + magic - magic, value);
}

// A half, computed as numpy does: in float, rounded after each operation.
class Half {
 public:
  explicit Half(double value) : value_(static_cast<float>(RoundedToHalf(value))) {}
  explicit operator double() const { return value_; }
  friend Half operator-(Half a, Half b) { return Half(a.value_ - b.value_); }
  friend Half operator+(Half a, Half b) { return Half(a.value_ + b.value_); }
  friend Half operator*(Half a, Half b) { return Half(a.value_ * b.value_); }
  friend Half operator/(Half a, Half b) { return Half(a.value_ / b.value_); }

 private:
  float value_;
};

// Calls visit(a value of the arithmetic's type).
template <typename Visit>
auto InArithmetic(SampleType type, const Visit& visit) {
  switch (type) {
    case SampleType::kF16:
      return visit(Half(0));
    case SampleType::kF32:
      return visit(0.0F);
    default:
      return visit(0.0);
  }
}

// The edge before it is rounded to the edges' type.
template <typename Arithmetic>
double EdgeIn(uint32_t i, Arithmetic step, Arithmetic lower) {
  // numpy.linspace: i * step + lower, rounded twice. A signed number converts faster.
  return static_cast<double>(static_cast<Arithmetic>(static_cast<int32_t>(i)) * step + lower);
}

template <typename Edge>
void Fill(const EdgeRule& rule, std::span<Edge> edges) {
  if (rule.listed != nullptr) {
    std::transform(rule.listed, rule.listed + rule.bins + 1, edges.begin(),
                   [](double edge) { return static_cast<Edge>(edge); });
    return;
  }
  InArithmetic(rule.types.arithmetic, [&]<typename Arithmetic>(Arithmetic) {
    const auto step = static_cast<Arithmetic>(rule.step),
               lower = static_cast<Arithmetic>(rule.lower);
    const auto fill = [&](const auto& round) {
      for (uint32_t i = 0; i < rule.bins; ++i) {
        edges[i] = static_cast<Edge>(round(EdgeIn(i, step, lower)));
      }
    };
    switch (rule.types.edges) {
      case SampleType::kF16:
        return fill(RoundedToHalf);
      case SampleType::kF32:
        return fill([](double edge) { return static_cast<float>(edge); });
      default:
        return fill([](double edge) { return edge; });
    }
  });
  edges[rule.bins] = static_cast<Edge>(rule.upper);
}

}  // namespace

double RoundedTo(SampleType type, double x) {
  if (type == SampleType::kF16) return RoundedToHalf(x);
  return type == SampleType::kF32 ? static_cast<double>(static_cast<float>(x)) : x;
}

double EdgeRule::Narrow(uint32_t i) const {
  const double edge = InArithmetic(types.arithmetic, [&]<typename Arithmetic>(Arithmetic) {
    return EdgeIn(i, static_cast<Arithmetic>(step), static_cast<Arithmetic>(lower));
  });
  return RoundedTo(types.edges, edge);
}

EdgeRule Linspace(EvenTypes types, uint32_t bins, double first, double last) {
  EdgeRule rule{.bins = bins, .types = types};
  InArithmetic(types.arithmetic, [&]<typename Arithmetic>(Arithmetic) {
    const auto from = static_cast<Arithmetic>(first), to = static_cast<Arithmetic>(last);
    const auto count = static_cast<Arithmetic>(static_cast<int32_t>(bins));
    rule.lower = static_cast<double>(from);
    // Without a step numpy computes otherwise: then the edges do not increase.
    rule.step = static_cast<double>((to - from) / count);
    rule.upper = RoundedTo(types.edges, static_cast<double>(to));
  });
  if (types == EvenTypes()) return rule;
  // Roundings move an edge by at most 9 units: 3 of the step's product, of twice the size, 2 of the
  // sum and the edge, 1 of the ends.
  // A number is rounded by a part of its value, or of the least number that is as exact as that.
  const bool half = types.arithmetic == SampleType::kF16 || types.edges == SampleType::kF16;
  const double size = std::max(std::fabs(rule.lower), std::fabs(rule.upper));
  const double unit = half ? std::max(size * 0x1p-11, 0x1p-14)
                           : std::max(size * 0x1p-24, double{std::numeric_limits<float>::min()});
  const double greatest = std::numeric_limits<double>::max();
  // Closer edges are listed and compared, and so are those that are not finite.
  if (rule.step >= 128 * unit && rule.step <= greatest && std::fabs(rule.upper) <= greatest &&
      std::fabs(RoundedTo(types.edges, rule.lower)) <= greatest) {
    rule.slack = 10 * unit;
  }
  return rule;
}

void FillEdges(const EdgeRule& rule, std::span<double> edges) { Fill(rule, edges); }
void FillEdges(const EdgeRule& rule, std::span<float> edges) { Fill(rule, edges); }

}  // namespace histogram::internal
