#include "kernels/cuda/base/cuda_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace histogram::cuda {
namespace {

// The payload that marks a status after which the process must end.
constexpr char kSpoilsProcessUrl[] = "histogram/SpoilsProcess";

enum class Loss : uint8_t { kNone, kContext, kProcess };

// What is lost after the error.
Loss LossBy(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorTensorMemoryLeak:
      return Loss::kProcess;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorMpsClientTerminated:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return Loss::kContext;
    default:
      return Loss::kNone;
  }
}

}  // namespace

bool SpoilsProcess(const absl::Status& status) {
  return status.GetPayload(kSpoilsProcessUrl).has_value();
}

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  const Loss loss = LossBy(error);
  if (loss == Loss::kNone) return absl::InternalError(message);
  absl::Status lost = absl::UnavailableError(message);
  if (loss == Loss::kProcess) lost.SetPayload(kSpoilsProcessUrl, absl::Cord("1"));
  return lost;
}

absl::Status LaunchStatus(absl::string_view kernel) {
  return ToStatus(cudaGetLastError(), absl::StrCat("launch of ", kernel));
}

}  // namespace histogram::cuda
