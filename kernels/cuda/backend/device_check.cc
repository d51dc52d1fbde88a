#include "kernels/cuda/backend/device_check.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/base/cuda_status.h"

namespace histogram::cuda {
namespace {

// The oldest architecture that machine code is built for.
constexpr int kComputeCapabilityMin = 75;

std::string CudaVersion(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The driver's own version, asked from its management library where there is one.
std::string DriverVersion(int cuda_version) {
  const std::string fallback = absl::StrCat("CUDA ", CudaVersion(cuda_version));
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fallback;
  using Init = int (*)();
  using Query = int (*)(char*, unsigned int);
  const auto init = reinterpret_cast<Init>(dlsym(library, "nvmlInit_v2"));
  const auto query = reinterpret_cast<Query>(dlsym(library, "nvmlSystemGetDriverVersion"));
  const auto shutdown = reinterpret_cast<Init>(dlsym(library, "nvmlShutdown"));
  std::string version;
  if (init != nullptr && query != nullptr && shutdown != nullptr && init() == 0) {
    std::array<char, 80> text{};
    if (query(text.data(), text.size()) == 0) version = text.data();
    shutdown();
  }
  dlclose(library);
  return version.empty() ? fallback : version;
}

std::string FormatUuid(const cudaUUID_t& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

absl::StatusOr<Device> Describe(int index, const std::string& driver) {
  cudaDeviceProp properties{};
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, index));
  Device device;
  HISTOGRAM_RETURN_IF_ERROR(ReadDeviceTraits(index, device.traits));
  if (device.traits.compute_capability < kComputeCapabilityMin) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "its compute capability is %d.%d; %d.%d is the least",
        device.traits.compute_capability / 10, device.traits.compute_capability % 10,
        kComputeCapabilityMin / 10, kComputeCapabilityMin % 10));
  }
  device.name = properties.name;
  device.uuid = FormatUuid(properties.uuid);
  device.driver = driver;
  device.memory_bytes = properties.totalGlobalMem;
  device.compiles_ptx =
      !RunsMachineCode(device.traits.compute_capability, {HISTOGRAM_CUDA_MACHINE_CODE});
  return device;
}

}  // namespace

bool RunsMachineCode(int compute_capability, std::initializer_list<int> architectures) {
  return architectures.size() == 0 ||
         std::any_of(architectures.begin(), architectures.end(), [&](int architecture) {
           return architecture / 10 == compute_capability / 10 &&
                  architecture <= compute_capability;
         });
}

std::vector<Device> FindDevices(const FaultPlan& faults, std::vector<std::string>& notes) {
  int supported = 0, needed = 0;
  if (cudaDriverGetVersion(&supported) != cudaSuccess || faults.no_driver) supported = 0;
  static_cast<void>(cudaRuntimeGetVersion(&needed));
  if (faults.driver_too_old) supported = 11040;
  if (supported == 0) {
    notes.emplace_back("no CUDA driver is installed");
    return {};
  }
  // A newer minor version runs on any driver of its major version.
  if (supported / 1000 < needed / 1000) {
    notes.push_back(absl::StrCat("the CUDA driver is too old: it supports CUDA ",
                                 CudaVersion(supported), ", this build needs ", CudaVersion(needed),
                                 " (driver 580 or newer)"));
    return {};
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || faults.no_device || (error == cudaSuccess && count == 0)) {
    notes.emplace_back("a CUDA driver is installed, but it sees no GPU");
    return {};
  }
  if (error != cudaSuccess) {
    notes.push_back(std::string(ToStatus(error, "the CUDA driver cannot be used").message()));
    return {};
  }
  const std::string driver = DriverVersion(supported);
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<Device> device = Describe(i, driver);
    if (device.ok()) {
      devices.push_back(*std::move(device));
    } else {
      notes.push_back(absl::StrCat("cuda:", i, " is not used: ", device.status().message()));
    }
  }
  return devices;
}

}  // namespace histogram::cuda
