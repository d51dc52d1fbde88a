// The backend "cpu": a pool of threads, one for each lane, that counts payloads in place.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_
#define HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_tuning.h"

namespace histogram::cpu {

struct CpuBackendOptions {
  uint32_t lanes = 0;             // 0: UsableCores()
  std::string force_kernel = {};  // registry name; empty: chosen by payload size
  CpuTuningOptions tuning = {};
};

inline constexpr char kBackendName[] = "cpu";
inline constexpr uint32_t kLanesMax = 1024;

// INVALID_ARGUMENT for a kernel that is unknown or that this processor cannot run (the message
// lists the valid ones), for more lanes than kLanesMax, and for a table file that cannot be read.
// Adds to `notes`, if given, what was not found.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuBackendOptions& options,
                                                        std::vector<std::string>* notes = nullptr);

// All kernels of bytes. Backend::kernels() lists those that this processor can run, and kernels of
// typed samples.
std::vector<KernelInfo> ListCpuKernels();

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_BACKEND_H_
