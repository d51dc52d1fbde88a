// Executes the phases of a payload on a lane, which looks at it part by part.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_PHASE_RUN_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_PHASE_RUN_H_

#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/batch.h"
#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/phases.h"

namespace histogram::cuda {

// `wait` waits for the lane's device. If its outcome is not OK, the payload is not touched again.
// On success fills in the report's kernel and times. REQUIRES: the lane covers phases.needs();
// the counters of a CountPhase, and of a plan of PlanOver, are at most kLaneCounters.
absl::Status RunPhases(Phases& phases, std::span<const Fragment> payload, Lane& lane,
                       absl::FunctionRef<absl::Status()> wait, BatchReport& report);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_PHASE_RUN_H_
