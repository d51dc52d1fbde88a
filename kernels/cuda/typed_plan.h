// A plan as devices count by it: the multiply-add in the device's favourite precision and its
// proof, and the thresholds in device memory.
//
// A TypedPlan, and a DevicePlan, is immutable: share it between threads, and streams of its device.
#ifndef HISTOGRAM_CUDA_TYPED_PLAN_H_
#define HISTOGRAM_CUDA_TYPED_PLAN_H_

#include <histogram/plan.h>

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/device/resources.h"
#include "kernels/cuda/kernels/typed.h"
#include "kernels/cuda/kernels/typed_rows.h"

namespace histogram::cuda {

// The bins of a plan, in the type that its samples are compared in.
using AnyTypedBins =
    std::variant<TypedBins<float>, TypedBins<double>, TypedBins<uint32_t>, TypedBins<uint64_t>>;

// What any device needs to count by a plan: how bins are found, which takes a proof, and tables.
// Immutable, in host memory; thread-safe.
class TypedPlan {
 public:
  explicit TypedPlan(Plan plan);

  const Plan& plan() const { return plan_; }
  // Thresholds, and what else is looked up; may be empty. At most TableBytesMax of the plan's bins.
  absl::Span<const uint8_t> tables() const { return tables_; }
  // `tables`: a copy of tables() in device memory, aligned to 16 bytes; not read here.
  AnyTypedBins BinsAt(const uint8_t* tables) const;

 private:
  template <typename P>
  void Fill(const internal::Bins<P>& bins);

  Plan plan_;
  AnyTypedBins bins_;  // pointers are offsets into the tables
  std::vector<uint8_t> tables_;
};
uint64_t TableBytesMax(uint64_t bins);

// The workspace that counting so many samples in one go takes; 0: none makes it quicker.
uint64_t WorkspaceBytes(uint32_t bins, uint64_t samples, const DeviceTraits& device);

// Queues the count of samples of the plan that the bins are of: with a workspace, by the quicker
// way. REQUIRES: PrepareTyped, once, with the launch's device current.
absl::Status EnqueueTyped(const TypedLaunch& launch, const AnyTypedBins& bins);
// Loads what EnqueueTyped launches, as PrepareTable says.
absl::Status PrepareTyped(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device);

// A plan whose tables lie in memory of its own.
class DevicePlan {
 public:
  // On the current device. Waits for the copy.
  static absl::StatusOr<DevicePlan> Make(const Plan& plan);

  // Loads what counting samples launches, as PrepareTyped does.
  absl::Status Prepare(const DeviceTraits& device) const {
    return PrepareTyped(plan_.type(), bins_, device);
  }
  // Queues the count of samples of the plan's type. REQUIRES: Prepare.
  absl::Status Enqueue(const TypedLaunch& launch) const { return EnqueueTyped(launch, bins_); }
  // Queues the count of rows of such samples. REQUIRES: as EnqueueRows says.
  absl::Status Enqueue(const RowsLaunch& launch) const;

  const Plan& plan() const { return plan_; }
  // REQUIRES: C is the type that the plan's samples are compared in.
  template <typename C>
  const TypedBins<C>& bins() const {
    return std::get<TypedBins<C>>(bins_);
  }

 private:
  explicit DevicePlan(Plan plan) : plan_(std::move(plan)) {}

  Plan plan_;
  DeviceBuffer tables_;
  AnyTypedBins bins_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_TYPED_PLAN_H_
