// The backend "cpu": a pool of threads, one for each lane, that counts payloads in place.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_
#define HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"

namespace histogram::cpu {

inline constexpr char kBackendName[] = "cpu";
inline constexpr uint32_t kLanesMax = 1024;

// By cpu_lanes, force_kernel and tune. INVALID_ARGUMENT for a kernel that this processor cannot run
// (the message lists the valid ones), and for more lanes than kLanesMax. REQUIRES: the kernel is
// one of ListCpuKernels, or empty.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options);

// All kernels of bytes. Backend::kernels() lists those that this processor can run, and kernels of
// typed samples.
std::vector<KernelInfo> ListCpuKernels();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_
