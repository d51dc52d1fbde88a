// Makes the backends that this build and this machine have. Only backend_factory.cc tests whether
// CUDA is compiled in.
#ifndef HISTOGRAM_KERNELS_BACKEND_FACTORY_H_
#define HISTOGRAM_KERNELS_BACKEND_FACTORY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace histogram {

struct BackendOptions {
  enum class Choice : uint8_t { kAuto, kCpu, kCuda };
  Choice choice = Choice::kAuto;  // kAuto: every usable GPU and the CPU
  uint32_t cpu_lanes = 0;         // 0: one for each of UsableCores()
  // Per GPU; 0: if they read receive_memory 2, or 1 where there are more than two GPUs; else 4.
  uint32_t cuda_lanes = 0;
  uint64_t cuda_lane_bytes = uint64_t{16} << 20;
  uint32_t lane_payloads = 4096;     // descriptors and result rows held per CUDA lane
  uint32_t spin_us_max = 50;         // how long a CUDA lane spins for the device before it sleeps
  std::string force_kernel = {};     // registry name; empty: the selector chooses
  bool tune = true;                  // measure the kernels first; else defaults decide
  std::string fault_injection = {};  // tests only, see kernels/cuda; empty: none
  // Host memory in which payloads may lie. With a GPU it is pinned, and lanes read it in place. It
  // outlives the backends, and whatever a GPU that hangs still does.
  std::span<uint8_t> receive_memory = {};
};

struct BackendSet {
  // In order of preference: GPUs first, then the CPU. Not empty on OK.
  std::vector<std::unique_ptr<Backend>> backends;
  // For the log, a sentence for each thing that was not found: "no CUDA driver is installed".
  std::vector<std::string> notes;
};

// INVALID_ARGUMENT for a bad option, such as an unknown kernel (the message lists the valid ones).
// FAILED_PRECONDITION if kCuda is asked for and no GPU can be used, or if no backend has the forced
// kernel (the message says why).
absl::StatusOr<BackendSet> MakeBackends(const BackendOptions& options);

// Every kernel of bytes in this build, also of backends that this machine cannot run.
std::vector<KernelInfo> ListKernels();

// Whether the CUDA backend is compiled in.
bool CudaCompiledIn();

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_BACKEND_FACTORY_H_
