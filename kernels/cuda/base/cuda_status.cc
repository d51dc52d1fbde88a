#include "kernels/cuda/base/cuda_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace histogram::cuda {
namespace {

// The payload that marks a status after which the process must end.
constexpr char kSpoilsProcessUrl[] = "histogram/SpoilsProcess";

}  // namespace

bool IsSticky(cudaError_t error) {
  switch (error) {
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
      return true;
    default:
      return SpoilsProcess(error);
  }
}

bool SpoilsProcess(cudaError_t error) {
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
      return true;
    default:
      return false;
  }
}

bool SpoilsProcess(const absl::Status& status) {
  return status.GetPayload(kSpoilsProcessUrl).has_value();
}

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  if (IsSticky(error)) {
    absl::Status lost = absl::UnavailableError(message);
    if (SpoilsProcess(error)) lost.SetPayload(kSpoilsProcessUrl, absl::Cord("1"));
    return lost;
  }
  return absl::InternalError(message);
}

absl::Status LaunchStatus(absl::string_view kernel) {
  return ToStatus(cudaGetLastError(), absl::StrCat("launch of ", kernel));
}

}  // namespace histogram::cuda
