#include "python/src/plans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/plan_data.h"

namespace histogram::python {
namespace {

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

// numpy.linspace: i * step + first, rounded twice; then rounded to the edges' type.
template <typename Arithmetic, typename Edge, typename Round>
void FillEven(double first, double last, std::span<Edge> edges, const Round& round) {
  const auto from = static_cast<Arithmetic>(first), to = static_cast<Arithmetic>(last);
  const auto bins = static_cast<int32_t>(edges.size() - 1);
  const Arithmetic step = (to - from) / static_cast<Arithmetic>(bins);
  // Without a step numpy computes otherwise: then the edges do not increase.
  for (int32_t i = 0; i < bins; ++i) edges[i] = round(static_cast<Arithmetic>(i) * step + from);
  edges[bins] = round(to);
}

template <typename Edge, typename Round>
void FillEven(double first, double last, EvenRule rule, std::span<Edge> edges, const Round& round) {
  switch (rule.arithmetic) {
    case EvenRule::Type::kHalf:
      return FillEven<Half>(first, last, edges, round);
    case EvenRule::Type::kFloat:
      return FillEven<float>(first, last, edges, round);
    case EvenRule::Type::kDouble:
      return FillEven<double>(first, last, edges, round);
  }
}

template <typename Edge>
std::optional<Binning> MakeEven(double first, double last, EvenRule rule, std::span<Edge> edges) {
  const internal::FloatMode mode;
  if (rule.edges == EvenRule::Type::kHalf) {
    FillEven(first, last, rule, edges,
             [](auto edge) { return static_cast<Edge>(RoundedToHalf(static_cast<double>(edge))); });
  } else {
    FillEven(first, last, rule, edges,
             [](auto edge) { return static_cast<Edge>(static_cast<double>(edge)); });
  }
  constexpr uint32_t kNoLimit = UINT32_MAX;
  const auto listed = [&] {
    if constexpr (std::is_same_v<Edge, double>) {
      if (rule.arithmetic == EvenRule::Type::kDouble) {
        return Binning::Even(static_cast<uint32_t>(edges.size() - 1), first, last, kNoLimit);
      }
      return Binning::Edges(edges, kNoLimit);
    } else {
      // Kept: of many edges, new memory takes longer than to fill it.
      static thread_local std::vector<double> exact;
      exact.assign(edges.begin(), edges.end());
      return Binning::Edges(exact, kNoLimit);
    }
  };
  Result<Binning> binning = listed();
  if (!binning.ok()) return std::nullopt;
  return *std::move(binning);
}

// How many samples a plan without tables counts until tables pay.
uint64_t PaysAt(const Plan& plan) {
  const bool guess =
      std::visit([](const auto& bins) { return bins.guess.usable(); }, plan.data().bins);
  const uint64_t bins = plan.bin_count(), bytes = SampleBytes(plan.type());
  if (bytes <= 2) return 1 + bins * (guess ? 2 : 1) + (uint64_t{1} << 8 * bytes) / 4;
  return 1 + bins * (guess ? 64 : 1);
}

}  // namespace

PlanInUse::PlanInUse(const Binning& binning, SampleType type)
    : plan_(*Plan::Direct(binning, type)), left_(PaysAt(plan_)) {}

Plan PlanInUse::For(size_t bytes) {
  const uint64_t samples = bytes / SampleBytes(plan_.type());
  if (left_ > samples) {
    left_ -= samples;
  } else if (left_ > 0) {
    plan_ = *Plan::Make(plan_.binning(), plan_.type());
    left_ = 0;
  }
  return plan_;
}

std::optional<Binning> EvenEdges(double first, double last, EvenRule rule,
                                 std::span<double> edges) {
  return MakeEven(first, last, rule, edges);
}
std::optional<Binning> EvenEdges(double first, double last, EvenRule rule, std::span<float> edges) {
  return MakeEven(first, last, rule, edges);
}

double RoundedToHalf(double value) {
  const double size = std::fabs(value);
  if (!(size < 65520)) return value + value * std::numeric_limits<double>::infinity();
  // Adding this leaves 10 bits below the first, or those above 2^-24.
  const double magic = std::ldexp(1.0, std::max(std::ilogb(size), -14) + 42);
  return std::copysign(size + magic - magic, value);
}

}  // namespace histogram::python
