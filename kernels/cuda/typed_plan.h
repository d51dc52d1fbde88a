// A plan on a device: its tables in device memory.
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
  std::variant<TypedBins<float>, TypedBins<double>, TypedBins<uint32_t>, TypedBins<int32_t>,
               TypedBins<uint64_t>, TypedBins<int64_t>>
      bins_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_TYPED_PLAN_H_
