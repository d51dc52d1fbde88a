#include "python/src/plans.h"

#include <cmath>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/plan_data.h"

namespace histogram::python {
namespace {

// numpy.linspace: i * step + first, rounded twice; then rounded to the edges' type.
template <typename Arithmetic, typename Edge>
void FillEven(double first, double last, std::span<Edge> edges) {
  const auto from = static_cast<Arithmetic>(first), to = static_cast<Arithmetic>(last);
  const auto bins = static_cast<int32_t>(edges.size() - 1);
  const Arithmetic step = (to - from) / static_cast<Arithmetic>(bins);
  // Without a step numpy computes otherwise: then the edges do not increase.
  for (int32_t i = 0; i < bins; ++i) {
    edges[i] = static_cast<Edge>(static_cast<Arithmetic>(i) * step + from);
  }
  edges[bins] = static_cast<Edge>(to);
}

template <typename Edge>
std::optional<Binning> MakeEven(double first, double last, bool narrow, std::span<Edge> edges) {
  const internal::FloatMode mode;
  narrow ? FillEven<float>(first, last, edges) : FillEven<double>(first, last, edges);
  constexpr uint32_t kNoLimit = UINT32_MAX;
  const auto listed = [&] {
    if constexpr (std::is_same_v<Edge, double>) {
      if (!narrow) {
        return Binning::Even(static_cast<uint32_t>(edges.size() - 1), first, last, kNoLimit);
      }
      return Binning::Edges(edges, kNoLimit);
    } else {
      return Binning::Edges(std::vector<double>(edges.begin(), edges.end()), kNoLimit);
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

std::optional<Binning> EvenEdges(double first, double last, bool narrow, std::span<double> edges) {
  return MakeEven(first, last, narrow, edges);
}
std::optional<Binning> EvenEdges(double first, double last, bool narrow, std::span<float> edges) {
  return MakeEven(first, last, narrow, edges);
}

}  // namespace histogram::python
