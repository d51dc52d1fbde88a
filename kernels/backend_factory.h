// Makes the backends that this build and this machine have. The only place that knows whether CUDA
// was compiled in.
#ifndef HISTOGRAM_KERNELS_BACKEND_FACTORY_H_
#define HISTOGRAM_KERNELS_BACKEND_FACTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace histogram {

struct BackendOptions {
  enum class Choice : uint8_t { kAuto, kCpu, kCuda };
  Choice choice = Choice::kAuto;  // kAuto: every usable GPU and the CPU
  uint32_t cpu_lanes = 0;         // 0: one per core of the cgroup's CPU quota, two at least
  uint32_t cuda_lanes = 4;        // per GPU
  uint64_t cuda_lane_bytes = uint64_t{16} << 20;
  uint32_t lane_payloads = 4096;  // descriptors and result rows held per CUDA lane
  uint32_t spin_us_max = 50;      // how long a CUDA lane spins for the device before it naps
  std::string force_kernel;       // registry name; empty: the selector chooses
  std::string tuning_cache;       // directory; empty: no cache
  std::string tuning_table;       // file with a table made elsewhere; empty: none
  bool tune = true;
  std::string fault_injection;  // tests only, see kernels/cuda; empty: none
};

struct BackendSet {
  // In order of preference: GPUs first, then the CPU. Never empty on OK.
  std::vector<std::unique_ptr<Backend>> backends;
  // What was looked for and not found, one sentence each ("no CUDA driver is installed"), for the
  // log.
  std::vector<std::string> notes;
};

// The processor cores that this process may use, by its affinity and its cgroup's quota; at
// least 1.
uint32_t UsableCores();

// INVALID_ARGUMENT for an unknown kernel (the message lists the valid ones); FAILED_PRECONDITION
// when kCuda was asked for and no GPU can be used (the message says why).
absl::StatusOr<BackendSet> MakeBackends(const BackendOptions& options);

// Every kernel compiled into this build, also of backends that this machine cannot run.
std::vector<KernelInfo> ListKernels();

// Whether the CUDA backend was compiled in.
bool CudaCompiledIn();

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BACKEND_FACTORY_H_
