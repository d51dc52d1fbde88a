// Which GPUs this process can use, and why not the others. Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_

#include <cstdint>
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
};

// Devices that can run our kernels; empty, with a sentence in `notes`, where there is no driver,
// one that is too old, or no GPU. Devices that cannot be used are left out with a note each.
std::vector<Device> FindDevices(const FaultPlan& faults, std::vector<std::string>& notes);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_DEVICE_CHECK_H_
