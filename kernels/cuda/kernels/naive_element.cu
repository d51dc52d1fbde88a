#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/per_payload.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kThreads = 256;

// One thread an element, one global atomic each.
__global__ void NaiveElementKernelOf(const uint8_t* data, uint32_t bytes, uint32_t* row) {
  __syncthreads();
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= bytes) return;
  atomicAdd(&row[data[i]], 1U);
}

class NaiveElementKernel final : public PerPayloadKernel {
 public:
  absl::string_view name() const override { return "naive_element"; }
  absl::string_view summary() const override {
    return "one element a thread, atomics in global memory";
  }
  bool slow() const override { return true; }

 protected:
  absl::Status EnqueuePayload(const Launch& launch, const uint8_t* data, uint32_t bytes,
                              uint32_t* row) const override {
    const uint32_t blocks = (bytes - 1) / kThreads + 1;
    NaiveElementKernelOf<<<blocks, kThreads, 0, launch.stream>>>(data, bytes, row);
    return LaunchStatus(name());
  }
};

}  // namespace

const CudaKernel& NaiveElement() {
  static const NaiveElementKernel kernel;
  return kernel;
}

}  // namespace histogram::cuda
