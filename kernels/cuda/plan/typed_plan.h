// A plan as devices count by it: the multiply-add in the device's favourite precision and its
// proof, and the thresholds in device memory. Even bins need no plan, but a few numbers, which a
// launch takes along.
//
// A TypedPlan, and a DevicePlan, is immutable: share it between threads, and streams of its device.
#ifndef HISTOGRAM_KERNELS_CUDA_PLAN_TYPED_PLAN_H_
#define HISTOGRAM_KERNELS_CUDA_PLAN_TYPED_PLAN_H_

#include <histogram/plan.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// What any device needs to count by a plan: how bins are found, which takes a proof, and tables.
// Immutable, in host memory; thread-safe.
class TypedPlan {
 public:
  // Makes the tables of a plan that has none.
  explicit TypedPlan(const Plan& plan);
  // The same for all copies of a Plan, and kept with it: to prove how bins are found takes as long
  // as to make the plan. A plan without tables is for samples that come once, and gets a new one.
  static std::shared_ptr<const TypedPlan> Of(const Plan& plan);

  SampleType type() const { return type_; }
  uint32_t bin_count() const { return BinCount(bins_); }
  // Thresholds, and what else is looked up; may be empty. At most TableBytesMax of the plan's bins.
  absl::Span<const uint8_t> tables() const { return tables_; }
  // `tables`: a copy of tables() in device memory, aligned to 16 bytes; not read here.
  AnyTypedBins BinsAt(const uint8_t* tables) const;

 private:
  template <typename C>
  void Fill(const Plan& plan, const internal::Bins<C>& bins);

  SampleType type_;
  AnyTypedBins bins_;  // pointers are offsets into the tables
  std::vector<uint8_t> tables_;
};
uint64_t TableBytesMax(uint64_t bins);

// The workspace that counting so many samples in one go takes; 0: none makes it quicker.
uint64_t WorkspaceBytes(uint32_t bins, uint64_t samples, const DeviceTraits& device);

// Queues the count of samples of the plan that the bins are of: with a workspace, by the quicker
// way. REQUIRES: PrepareTable, once, with the launch's device current.
absl::Status EnqueueTyped(const TypedLaunch& launch, const AnyTypedBins& bins);

// A plan whose tables lie in memory of its own.
struct DevicePlan {
  // On the current device. Waits for the copy.
  static absl::StatusOr<DevicePlan> Make(const Plan& plan);

  DeviceBuffer tables;
  AnyTypedBins bins;
};

// Whether the counters and the thresholds of so many even bins fit a block's shared memory.
bool EvenBinsFit(SampleType type, uint32_t bins, const DeviceTraits& device);

// The bins of samples of a type between the edges. REQUIRES: EvenBinsFit, AreDistinct.
AnyTypedBins MakeEvenBins(SampleType type, const EvenEdges& edges);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_PLAN_TYPED_PLAN_H_
