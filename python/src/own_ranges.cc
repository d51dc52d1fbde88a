#include "python/src/own_ranges.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/float_mode.h"
#include "kernels/linspace.h"

namespace histogram::python {
namespace {

// Up to here doubles hold all integers.
constexpr double kWholeMax = 0x1p53;

template <typename Edge>
std::optional<Plan> Make(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                         std::span<Edge> edges) {
  const internal::FloatMode mode;
  edges[0] = std::numeric_limits<Edge>::quiet_NaN();
  if (!extent.has_value() || !extent->finite) return std::nullopt;
  double first = extent->least, last = extent->greatest;
  // A last edge of 0 would be 0.0 or -0.0, as numpy's order of comparisons has it.
  if (last == 0 && extent->negative_zero) return std::nullopt;
  if (KindOf(type) != SampleKind::kFloat && std::max(-first, last) > kWholeMax) return std::nullopt;
  SampleType its = std::is_same_v<Edge, float> ? SampleType::kF32 : SampleType::kF64;
  if (type == SampleType::kF16) its = type;
  if (first == last) {
    first = internal::RoundedTo(its, first - 0.5);
    last = internal::RoundedTo(its, last + 0.5);
  }
  const Result<Binning> binning =
      Binning::EvenIn({its, its}, static_cast<uint32_t>(edges.size() - 1), first, last,
                      std::numeric_limits<uint32_t>::max());
  if (!binning.ok()) return std::nullopt;
  binning->ComputeEdges(edges);
  // Callers read the counters below, above and NaN; a plan of bytes has none.
  const Result<Plan> direct = Plan::Direct(*binning, type);
  return direct->TablesPay(samples) ? *Plan::Make(*binning, type) : *direct;
}

}  // namespace

std::optional<Plan> PlanOver(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                             std::span<float> edges) {
  return Make(extent, type, samples, edges);
}
std::optional<Plan> PlanOver(const std::optional<Extent>& extent, SampleType type, uint64_t samples,
                             std::span<double> edges) {
  return Make(extent, type, samples, edges);
}

}  // namespace histogram::python
