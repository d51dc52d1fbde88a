// One GPU as a backend: lanes with a thread each, and what happens when the GPU is lost.
//
// A batch belongs to the lane that took it. When the backend goes down (MarkDown, or an error that
// poisons the context), batches that wait for the device are taken from their lanes and handed back
// UNAVAILABLE by a thread of its own, whether or not the device ever answers; a lane that is stuck
// there is left behind with its buffers. A lane that is copying from the fragments keeps its batch
// until it has let go of them. After a poisoned context nothing is freed. Where the error is one
// after which the process must end, the backends of all GPUs that share a SharedFate go down with
// this one.
#ifndef HISTOGRAM_KERNELS_CUDA_CUDA_BACKEND_H_
#define HISTOGRAM_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/device/device_check.h"
#include "kernels/cuda/device/fault_plan.h"
#include "kernels/cuda/shared_fate.h"

namespace histogram::cuda {

// INVALID_ARGUMENT, naming field, value and limits, where options are beyond their limits.
absl::Status CheckOptions(const BackendOptions& options);

// Allocates all lanes and tunes on the first of them. RESOURCE_EXHAUSTED where memory is short.
// REQUIRES: CheckOptions(options) is OK; options.force_kernel is empty or one of cuda's.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const Device& device,
                                                         const BackendOptions& options,
                                                         const std::shared_ptr<FaultPlan>& faults,
                                                         const std::shared_ptr<SharedFate>& fate);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_CUDA_BACKEND_H_
