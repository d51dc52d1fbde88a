#include "kernels/cuda/typed_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_status.h"

namespace histogram::cuda {
namespace {

// As many as fit beside a bin's number, and as few as keep a step of the fraction above the error.
template <typename C>
uint32_t FractionBits(const internal::Bins<C>& bins) {
  const int fit = 30 - static_cast<int>(std::bit_width(bins.thresholds.size()));
  if (bins.guess.error <= 0) return static_cast<uint32_t>(fit);
  return static_cast<uint32_t>(std::clamp(-std::ilogb(bins.guess.error) - 1, 0, fit));
}

// Sets bins' slope and intercept where they find the bin of every sample: the line is monotone, so
// both ends of each bin prove it.
template <typename C>
void ProveLine(const internal::Bins<C>& bins, TypedBins<C>& typed) {
  if constexpr (std::is_integral_v<C> && sizeof(C) == 4) {
    // guess: position = (x - lower) * scale + offset.
    const double slope = std::round(bins.guess.scale * 0x1p32);
    const double intercept = std::round(bins.guess.offset * 0x1p32);
    if (!(slope >= 1 && slope < 0x1p32 && intercept >= 0 && intercept < 0x1p62)) return;
    const auto bin_of = [&](C x) {
      const auto from =
          static_cast<uint32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(bins.lower));
      return (uint64_t{from} * static_cast<uint64_t>(slope) + static_cast<uint64_t>(intercept)) >>
             32;
    };
    for (size_t i = 0; i < bins.thresholds.size(); ++i) {
      const bool last = i + 1 == bins.thresholds.size();
      if (!last && bins.thresholds[i] == bins.thresholds[i + 1]) continue;
      const C greatest = last ? bins.upper : static_cast<C>(bins.thresholds[i + 1] - 1);
      // Beyond the last bin is the last bin: bins are clamped.
      if (bin_of(bins.thresholds[i]) < i || (!last && bin_of(greatest) > i) ||
          bin_of(greatest) > std::numeric_limits<int32_t>::max()) {
        return;
      }
    }
    typed.slope = static_cast<uint32_t>(slope);
    typed.intercept = static_cast<uint64_t>(intercept);
  }
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
          typed.guess = bins.guess;
          typed.fraction_bits = FractionBits(bins);
          ProveLine(bins, typed);
        }
        if (!typed.none && !typed.guess.usable()) {
          absl::StatusOr<DeviceBuffer> candidates = Upload(bins.cells.first);
          if (!candidates.ok()) return candidates.status();
          made.candidates_ = *std::move(candidates);
          typed.candidates = made.candidates_.get<uint32_t>();
          typed.cell_shift = bins.cells.shift;
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
