// A plan on a device: the multiply-add in the device's favourite precision and its proof, and the
// thresholds in device memory.
//
// A DevicePlan is immutable; share it between threads and streams of its device.
#ifndef HISTOGRAM_CUDA_TYPED_PLAN_H_
#define HISTOGRAM_CUDA_TYPED_PLAN_H_

#include <histogram/plan.h>

#include <variant>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/resources.h"
#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// A multiply-add that finds bins, where one was proven.
template <typename C>
struct Guess {
  typename TypedBins<C>::Guess scale = 0, offset = 0;
  typename TypedBins<C>::Guess sure = 0;  // see TypedBins; 0: none was proven
};

// Looks at the least and the greatest sample of each bin. The position f is monotone, so no sample
// of bin i lies further outside [i - 0.5, i + 0.5] than one of these two. Where the furthest of all
// is less than a quarter of a bin away, the guess is off by one at most, and only within that
// distance of an edge.
template <typename C>
Guess<C> ProveGuess(const internal::Bins<C>& bins, const Binning& binning);

class DevicePlan {
 public:
  // On the current device. Waits for the copy.
  static absl::StatusOr<DevicePlan> Make(const Plan& plan);

  // Queues the count of samples of the plan's type.
  absl::Status Enqueue(const TypedLaunch& launch) const;

  const Plan& plan() const { return plan_; }
  // REQUIRES: C is the type that the plan's samples are compared in.
  template <typename C>
  const TypedBins<C>& bins() const {
    return std::get<TypedBins<C>>(bins_);
  }

 private:
  explicit DevicePlan(Plan plan) : plan_(std::move(plan)) {}

  Plan plan_;
  DeviceBuffer thresholds_, candidates_;
  std::variant<TypedBins<float>, TypedBins<double>, TypedBins<uint32_t>, TypedBins<uint64_t>> bins_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_TYPED_PLAN_H_
