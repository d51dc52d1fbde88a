#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/fault_plan.h"
#include "kernels/error.h"

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

absl::StatusOr<std::shared_ptr<FaultPlan>> FaultPlan::Parse(absl::string_view text) {
  auto plan = std::make_shared<FaultPlan>();
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    uint64_t* const count = parts.first == "fail-launch"     ? &plan->fail_launch
                            : parts.first == "hang-launch"   ? &plan->hang_launch
                            : parts.first == "poison-launch" ? &plan->poison_launch
                                                             : nullptr;
    bool* const flag = word == "out-of-memory"    ? &plan->out_of_memory
                       : word == "no-driver"      ? &plan->no_driver
                       : word == "driver-too-old" ? &plan->driver_too_old
                       : word == "no-device"      ? &plan->no_device
                                                  : nullptr;
    if (count != nullptr && absl::SimpleAtoi(parts.second, count) && *count > 0) continue;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat("fault_injection holds '", word,
                     "'; valid are fail-launch=N, hang-launch=N, poison-launch=N (N "
                     "from 1), out-of-memory, no-driver, driver-too-old, no-device"),
        {.reason = "BAD_OPTION", .field = "fault_injection", .limit = 0, .retry_after_ms = {}});
  }
  return plan;
}

LaunchFault FaultPlan::NextLaunch() {
  const uint64_t launch = launches.fetch_add(1, std::memory_order_relaxed) + 1;
  if (launch == fail_launch) return LaunchFault::kFail;
  if (launch == hang_launch) return LaunchFault::kHang;
  if (launch == poison_launch) return LaunchFault::kPoison;
  return LaunchFault::kNone;
}

absl::Status EnqueueHang(const uint32_t* release, cudaStream_t stream) {
  HangKernel<<<1, 1, 0, stream>>>(release);
  return LaunchStatus("HangKernel");
}

absl::Status EnqueuePoison(cudaStream_t stream) {
  PoisonKernel<<<1, 1, 0, stream>>>(reinterpret_cast<uint32_t*>(uintptr_t{0x10}));
  return LaunchStatus("PoisonKernel");
}

}  // namespace histogram::cuda
