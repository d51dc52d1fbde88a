// Which GPUs this process can use, and why not the others. Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/cuda/base/fault_plan.h"
#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

struct Device {
  DeviceTraits traits;
  std::string name;    // "NVIDIA H200"
  std::string uuid;    // "GPU-..."
  std::string driver;  // "580.159.04", or "CUDA 13.0" where the driver does not say
  uint64_t memory_bytes = 0;
  bool compiles_ptx = false;  // this build holds no machine code for it
};

// Whether a GPU runs machine code for one of these architectures (75 for 7.5): those of its major
// version with no later minor one. For others the driver compiles PTX as it loads kernels. An empty
// list stands for the GPUs of the machine that compiled this, and is true.
bool RunsMachineCode(int compute_capability, std::initializer_list<int> architectures);

// Devices that can run our kernels; empty, with a sentence in `notes`, where there is no driver,
// one that is too old, or no GPU. Devices that cannot be used are left out with a note each.
std::vector<Device> FindDevices(const FaultPlan& faults, std::vector<std::string>& notes);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_
