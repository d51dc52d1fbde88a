#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/fault_plan.h"

namespace histogram::cuda {
namespace {

constexpr uint64_t kHangNsMax = 60'000'000'000;

__device__ uint64_t GlobalTimerNs() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void HangKernel(const volatile uint32_t* release) {
  const uint64_t start = GlobalTimerNs();
  while (*release == 0 && GlobalTimerNs() - start < kHangNsMax) {
  }
}

__global__ void PoisonKernel(uint32_t* nowhere) { *nowhere = 1; }

}  // namespace

absl::Status EnqueueHang(const uint32_t* release, cudaStream_t stream) {
  HangKernel<<<1, 1, 0, stream>>>(release);
  return LaunchStatus("HangKernel");
}

absl::Status EnqueuePoison(cudaStream_t stream) {
  PoisonKernel<<<1, 1, 0, stream>>>(reinterpret_cast<uint32_t*>(uintptr_t{0x10}));
  return LaunchStatus("PoisonKernel");
}

}  // namespace histogram::cuda
