#include "kernels/backend_factory.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/error.h"
#ifdef HISTOGRAM_CUDA
#include "kernels/cuda/backend/cuda_backends.h"
#endif

namespace histogram {
namespace {

using Choice = BackendOptions::Choice;

#ifdef HISTOGRAM_CUDA
constexpr bool kCudaCompiledIn = true;
#else
constexpr bool kCudaCompiledIn = false;

// Stands for kernels/cuda in builds without CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const BackendOptions& /*options*/, std::vector<std::string>& notes) {
  notes.emplace_back("this build has no CUDA backend");
  return std::vector<std::unique_ptr<Backend>>();
}
std::vector<KernelInfo> ListCudaKernels() { return {}; }
#endif

bool Has(const std::vector<KernelInfo>& kernels, const std::string& name) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [&name](const KernelInfo& kernel) { return kernel.name == name; });
}

absl::Status CheckForcedKernel(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  const std::vector<KernelInfo> kernels = ListKernels();
  if (Has(kernels, name)) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("force_kernel is '", name, "'; valid names are ",
                   absl::StrJoin(kernels, ", ",
                                 [](std::string* out, const KernelInfo& kernel) {
                                   out->append(kernel.name);
                                 })),
      {.reason = "UNKNOWN_KERNEL", .field = "force_kernel", .limit = 0, .retry_after_ms = {}});
}

// Appends every usable GPU. Fails only if an option is wrong, or if kCuda is asked for.
absl::Status AddCudaBackends(const BackendOptions& options, BackendSet& set) {
  absl::StatusOr<std::vector<std::unique_ptr<Backend>>> gpus = MakeCudaBackends(options, set.notes);
  if (!gpus.ok()) {
    if (options.choice == Choice::kCuda || absl::IsInvalidArgument(gpus.status())) {
      return gpus.status();
    }
    set.notes.push_back(absl::StrCat("no GPU is used: ", gpus.status().message()));
    return absl::OkStatus();
  }
  if (gpus->empty() && options.choice == Choice::kCuda) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend cuda was asked for, but no GPU can be used: ",
                     set.notes.empty() ? "none was found" : absl::StrJoin(set.notes, "; ")));
  }
  std::move(gpus->begin(), gpus->end(), std::back_inserter(set.backends));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BackendSet> MakeBackends(const BackendOptions& options) {
  if (absl::Status status = CheckForcedKernel(options.force_kernel); !status.ok()) return status;
  // A forced kernel leaves out the backends that do not have it. No batch may run another kernel.
  const auto wanted = [&options](const std::vector<KernelInfo>& kernels) {
    return options.force_kernel.empty() || Has(kernels, options.force_kernel);
  };

  BackendSet set;
  if (options.choice != Choice::kCpu) {
    if (wanted(ListCudaKernels()) || !kCudaCompiledIn) {
      if (absl::Status status = AddCudaBackends(options, set); !status.ok()) return status;
    } else if (options.choice == Choice::kCuda) {
      return absl::FailedPreconditionError(
          absl::StrCat("force_kernel '", options.force_kernel, "' is not one of backend cuda's"));
    }
  }
  if (options.choice != Choice::kCuda) {
    if (wanted(cpu::ListCpuKernels())) {
      absl::StatusOr<std::unique_ptr<Backend>> cpu = cpu::MakeCpuBackend(options);
      if (!cpu.ok()) return cpu.status();
      set.backends.push_back(*std::move(cpu));
    } else {
      set.notes.push_back(
          absl::StrCat("backend cpu is left out: it has no kernel '", options.force_kernel, "'"));
    }
  }
  if (set.backends.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no backend can run the forced kernel '",
                                                      options.force_kernel,
                                                      "': ", absl::StrJoin(set.notes, "; ")));
  }
  return set;
}

std::vector<KernelInfo> ListKernels() {
  std::vector<KernelInfo> kernels = ListCudaKernels();
  for (KernelInfo& kernel : cpu::ListCpuKernels()) kernels.push_back(std::move(kernel));
  return kernels;
}

bool CudaCompiledIn() { return kCudaCompiledIn; }

}  // namespace histogram
