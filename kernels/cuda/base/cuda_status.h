// CUDA errors as absl::Status, at the call that returned them. Thread-safe: functions without
// state.
#ifndef HISTOGRAM_KERNELS_CUDA_BASE_CUDA_STATUS_H_
#define HISTOGRAM_KERNELS_CUDA_BASE_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace histogram::cuda {

// OK for cudaSuccess. RESOURCE_EXHAUSTED where memory ran out. UNAVAILABLE where the context is
// lost: every later call in this process fails, and nothing that lies on the device may be freed
// any more. INTERNAL for the rest. The message names `what`, CUDA's name for the error and its
// text.
absl::Status ToStatus(cudaError_t error, absl::string_view what);

// The same for the launch that was just made: cudaGetLastError.
absl::Status LaunchStatus(absl::string_view kernel);

// Whether CUDA demands that the process ends after this status, which ToStatus made: a kernel
// strayed, and what the process does on any of its GPUs is undefined from then on.
bool SpoilsProcess(const absl::Status& status);

// Lets blocks of the kernel have so much dynamic shared memory.
template <typename Kernel>
absl::Status AllowShared(Kernel* kernel, uint32_t bytes) {
  return ToStatus(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "cudaFuncSetAttribute");
}

}  // namespace histogram::cuda

// Returns from the enclosing function where a call returns a Status that is not OK.
#define HISTOGRAM_RETURN_IF_ERROR(call)                                                          \
  do {                                                                                           \
    if (absl::Status histogram_status = (call); !histogram_status.ok()) return histogram_status; \
  } while (false)

// The same for a call of CUDA.
#define HISTOGRAM_CUDA_RETURN_IF_ERROR(call) \
  HISTOGRAM_RETURN_IF_ERROR(::histogram::cuda::ToStatus((call), #call))

// Assigns the value of a StatusOr, or returns its status from the enclosing function.
#define HISTOGRAM_ASSIGN_OR_RETURN(to, ...)                   \
  do {                                                        \
    auto histogram_made = (__VA_ARGS__);                      \
    if (!histogram_made.ok()) return histogram_made.status(); \
    (to) = *std::move(histogram_made);                        \
  } while (false)

#endif  // HISTOGRAM_KERNELS_CUDA_BASE_CUDA_STATUS_H_
