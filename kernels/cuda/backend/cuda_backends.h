// The GPU backends of this machine. The other folders, tests and benchmarks excepted, include only
// this header of the folder. It names no CUDA type. The CUDA runtime is linked statically, so a
// binary that holds it also starts on a machine without a driver.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_BACKENDS_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"

namespace histogram {

// One backend per usable GPU, named cuda:0, cuda:1 ... with all lanes allocated. A GPU that cannot
// be used (no driver, a driver that is too old, no GPU, not enough memory) is no error: the list is
// shorter, or empty, and `notes` gets a sentence. INVALID_ARGUMENT where `options` are wrong.
// REQUIRES: options.force_kernel is empty, or one of ListCudaKernels; cuda_lanes <= 256;
// cuda_lane_bytes is from 64 KiB to 4095 MiB, lane_payloads from 1 to 2^20.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options, std::vector<std::string>& notes);

// Every CUDA kernel of bytes that is compiled in.
std::vector<KernelInfo> ListCudaKernels();

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_CUDA_BACKENDS_H_
