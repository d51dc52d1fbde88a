// NVTX ranges for the stages of a batch, seen in Nsight Systems; nothing when no tool is attached.
#ifndef HISTOGRAM_KERNELS_CUDA_DEVICE_NVTX_H_
#define HISTOGRAM_KERNELS_CUDA_DEVICE_NVTX_H_

#include <nvtx3/nvToolsExt.h>

namespace histogram::cuda {

// Marks the time from its construction to its destruction on this thread.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_DEVICE_NVTX_H_
