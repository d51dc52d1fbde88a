// The base of the kernels that count one payload a launch: zeroes the rows, then launches payload
// by payload, in stream order.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

class PerPayloadKernel : public CudaKernel {
 public:
  absl::Status Enqueue(const Launch& launch) const override;

 protected:
  // Adds the payload's counts to `row`.
  // REQUIRES: bytes > 0.
  virtual absl::Status EnqueuePayload(const Launch& launch, const uint8_t* data, uint32_t bytes,
                                      uint32_t* row) const = 0;
  // Whether EnqueuePayload overwrites the row instead of adding to it.
  virtual bool overwrites_row() const { return false; }
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_
