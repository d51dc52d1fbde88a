// Faults for tests: what BackendOptions::fault_injection asks for, and when it is due.
//
// The text is a comma-separated list of:
//
// - fail-launch=N: the N-th launch (from 1; of a batch, or of a step of phases) on any GPU fails;
//   the context survives.
// - hang-launch=N: the N-th never finishes; its kernel waits until the backend goes, or for 60 s.
// - poison-launch=N: the N-th writes through a bad pointer, which poisons the context.
// - out-of-memory: the lanes cannot be allocated.
// - no-driver, driver-too-old, no-device: the machine appears so.
//
// Thread-safe after Parse.
#ifndef HISTOGRAM_KERNELS_CUDA_BASE_FAULT_PLAN_H_
#define HISTOGRAM_KERNELS_CUDA_BASE_FAULT_PLAN_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace histogram::cuda {

enum class LaunchFault : uint8_t { kNone, kFail, kHang, kPoison };

struct FaultPlan {
  // INVALID_ARGUMENT for words it does not know; the message lists those that it does.
  static absl::StatusOr<std::shared_ptr<FaultPlan>> Parse(absl::string_view text);

  // Counts a launch and says what is to go wrong with it.
  LaunchFault NextLaunch();

  uint64_t fail_launch = 0, hang_launch = 0, poison_launch = 0;  // 0: never
  bool out_of_memory = false, no_driver = false, driver_too_old = false, no_device = false;
  std::atomic<uint64_t> launches = 0;
};

// A kernel that runs until *release (mapped host memory) is not 0, or for 60 s.
absl::Status EnqueueHang(const uint32_t* release, cudaStream_t stream);
// A kernel that writes where nothing is mapped.
absl::Status EnqueuePoison(cudaStream_t stream);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BASE_FAULT_PLAN_H_
