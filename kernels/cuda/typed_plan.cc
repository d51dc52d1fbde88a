#include "kernels/cuda/typed_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_status.h"

namespace histogram::cuda {
namespace {

// Beyond that a position's nearest integer no longer fits the low bits of a float (see
// typed_table.cu), and its rounding alone would be a large part of a bin.
constexpr uint32_t kGuessBinsMax = 1U << 20;
constexpr double kErrorMax = 0.25;  // of a bin

template <typename C>
C Previous(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::nextafter(x, -std::numeric_limits<C>::infinity());
  } else {
    return static_cast<C>(x - 1);
  }
}

// The furthest that a sample lies outside its bin, in bins; infinite where a position is no number.
template <typename C>
double ErrorOf(const Guess<C>& guess, const internal::Bins<C>& bins) {
  const std::vector<C>& thresholds = bins.thresholds;
  const auto position = [&](C x) {
    return static_cast<double>(Position<C>(x, bins.lower, guess.scale, guess.offset));
  };
  double error = 0;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const bool last = i + 1 == thresholds.size();
    if (!last && thresholds[i] == thresholds[i + 1]) continue;
    const auto middle = static_cast<double>(i);
    const double low = position(thresholds[i]) - (middle - 0.5);
    const double high = (middle + 0.5) - position(last ? bins.upper : Previous(thresholds[i + 1]));
    if (!std::isfinite(low) || !std::isfinite(high)) return std::numeric_limits<double>::infinity();
    error = std::max({error, -low, -high});
  }
  return error;
}

template <typename T>
absl::StatusOr<DeviceBuffer> Upload(const std::vector<T>& values) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Make(values.size() * sizeof(T));
  if (!buffer.ok()) return buffer.status();
  HISTOGRAM_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(buffer->get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return buffer;
}

}  // namespace

template <typename C>
Guess<C> ProveGuess(const internal::Bins<C>& bins, const Binning& binning) {
  using Number = typename TypedBins<C>::Guess;
  if (binning.bin_count() > kGuessBinsMax || bins.thresholds.empty()) return {};
  const std::vector<double> edges = binning.ComputeEdges();
  const double scale = static_cast<double>(binning.bin_count()) / (edges.back() - edges.front());
  // An integer's position is taken from the lowest one.
  double from = -edges.front();
  if constexpr (!std::is_floating_point_v<C>) {
    from = static_cast<double>(bins.lower) - edges.front();
  }
  Guess<C> best;
  double least = kErrorMax;
  // Integers may be moved by half of one: those on an edge are then in the middle of their share.
  for (const double shift : {0.0, 0.5}) {
    if (std::is_floating_point_v<C> && shift != 0) break;
    Guess<C> guess;
    guess.scale = static_cast<Number>(scale);
    guess.offset = static_cast<Number>((from + shift) * scale - 0.5);
    const double error = ErrorOf(guess, bins);
    if (!(error < least)) continue;
    least = error;
    best = guess;
    best.sure = std::nextafter(static_cast<Number>(0.5 - error), Number{0});
  }
  return best;
}

template Guess<float> ProveGuess(const internal::Bins<float>&, const Binning&);
template Guess<double> ProveGuess(const internal::Bins<double>&, const Binning&);
template Guess<uint32_t> ProveGuess(const internal::Bins<uint32_t>&, const Binning&);
template Guess<int32_t> ProveGuess(const internal::Bins<int32_t>&, const Binning&);
template Guess<uint64_t> ProveGuess(const internal::Bins<uint64_t>&, const Binning&);
template Guess<int64_t> ProveGuess(const internal::Bins<int64_t>&, const Binning&);

absl::StatusOr<DevicePlan> DevicePlan::Make(const Plan& plan) {
  DevicePlan made(plan);
  const absl::Status status = std::visit(
      [&]<typename C>(const internal::Bins<C>& bins) -> absl::Status {
        TypedBins<C> typed;
        typed.lower = bins.lower;
        typed.upper = bins.upper;
        typed.bins = plan.bin_count();
        typed.reached = static_cast<uint32_t>(bins.thresholds.size());
        typed.none = bins.thresholds.empty();
        typed.all_below = bins.all_below;
        if (!typed.none) {
          absl::StatusOr<DeviceBuffer> thresholds = Upload(bins.thresholds);
          if (!thresholds.ok()) return thresholds.status();
          made.thresholds_ = *std::move(thresholds);
          typed.thresholds = made.thresholds_.get<C>();
          const Guess<C> guess = ProveGuess(bins, plan.binning());
          typed.scale = guess.scale;
          typed.offset = guess.offset;
          typed.sure = guess.sure;
          if (guess.sure == 0) {
            const internal::Cells cells = internal::MakeCells(bins);
            absl::StatusOr<DeviceBuffer> candidates = Upload(cells.first);
            if (!candidates.ok()) return candidates.status();
            made.candidates_ = *std::move(candidates);
            typed.candidates = made.candidates_.get<uint32_t>();
            typed.cell_shift = cells.shift;
          }
        }
        made.bins_ = typed;
        return absl::OkStatus();
      },
      plan.data().bins);
  if (!status.ok()) return status;
  return made;
}

absl::Status DevicePlan::Enqueue(const TypedLaunch& launch) const {
  return std::visit([&](const auto& bins) { return EnqueueTyped(launch, bins); }, bins_);
}

}  // namespace histogram::cuda
