// The dispatch table of a GPU: which kernel its lanes run for which workload, measured on the lane
// itself, with all copies but the gathering. Not thread-safe by itself: one call tunes one device,
// on one thread, which has called SleepPrecisely.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_TUNING_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_TUNING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend_factory.h"
#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/tuning/tune.h"

namespace histogram::cuda {

// The kinds of batches that are measured at start.
std::vector<tuning::TuneCell> TuningCells(const BackendOptions& options);

// What a lane's copy into pinned memory costs on this machine, beside the costs in the rows.
double MeasureGatherNsPerByte(Lane& lane);

// What was measured on `lane`, then rows with costs of 0 for all else; these alone where nothing is
// to be measured.
// `backend` is what the rows name ("cuda:0"). REQUIRES: `lane` is idle and its device current.
std::vector<KernelChoice> MakeCudaTable(const std::string& backend, const BackendOptions& options,
                                        Lane& lane);

// The rows of typed samples, by the kernel of lone payloads: the times of those of f32 in
// kTypedBinsMeasured even bins on `lane`, once gathered. One row with a cost of 0 where nothing is
// to be measured. Takes some milliseconds. REQUIRES: as above.
inline constexpr uint32_t kTypedBinsMeasured = 2048;
absl::StatusOr<std::vector<KernelChoice>> MakeTypedRows(const std::string& backend,
                                                        const BackendOptions& options, Lane& lane);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_TUNING_H_
