#include "kernels/cuda/cuda_backends.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/device_check.h"
#include "kernels/cuda/device/fault_plan.h"
#include "kernels/cuda/kernels/registry.h"
#include "kernels/cuda/shared_fate.h"
#include "kernels/error.h"

namespace histogram {

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& options, std::vector<std::string>& notes) {
  absl::StatusOr<std::shared_ptr<cuda::FaultPlan>> faults =
      cuda::FaultPlan::Parse(options.fault_injection);
  if (!faults.ok()) return faults.status();
  if (!options.force_kernel.empty() && cuda::FindKernel(options.force_kernel) == nullptr) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("force_kernel is '", options.force_kernel, "'; cuda's kernels are ",
                     cuda::KernelNames()),
        {.reason = "UNKNOWN_KERNEL", .field = "force_kernel", .limit = 0, .retry_after_ms = {}});
  }
  HISTOGRAM_RETURN_IF_ERROR(cuda::CheckOptions(options));
  const auto fate = std::make_shared<cuda::SharedFate>();
  // GPUs are prepared side by side: each allocates and tunes for a second or so.
  struct Made {
    cuda::Device device;
    absl::StatusOr<std::unique_ptr<Backend>> backend = absl::UnknownError("not made");
  };
  std::vector<Made> made;
  std::vector<cuda::Device> devices = cuda::FindDevices(**faults, notes);
  made.reserve(devices.size());
  for (cuda::Device& device : devices) made.emplace_back().device = std::move(device);
  std::vector<std::thread> threads;
  threads.reserve(made.size());
  for (Made& one : made) {
    threads.emplace_back([&one, &options, &faults, &fate] {
      one.backend = cuda::MakeCudaBackend(one.device, options, *faults, fate);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Backend>> backends;
  for (Made& one : made) {
    if (one.backend.ok()) {
      backends.push_back(*std::move(one.backend));
    } else if (absl::IsInvalidArgument(one.backend.status())) {
      return one.backend.status();
    } else {
      notes.push_back(absl::StrCat("cuda:", one.device.traits.index,
                                   " is not used: ", one.backend.status().message()));
    }
  }
  return backends;
}

std::vector<KernelInfo> ListCudaKernels() {
  std::vector<KernelInfo> infos;
  for (const cuda::CudaKernel* kernel : cuda::Kernels()) {
    infos.push_back({.name = std::string(kernel->name()),
                     .backend = "cuda",
                     .summary = std::string(kernel->summary())});
  }
  return infos;
}

}  // namespace histogram
