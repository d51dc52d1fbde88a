// The kernels that count one payload a launch: the rows are zeroed, then payload after payload is
// launched, in stream order.
#ifndef HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_
#define HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_

#include "kernels/cuda/kernels/kernel.h"

namespace histogram::cuda {

class PerPayloadKernel final : public CudaKernel {
 public:
  struct Traits {
    absl::string_view name, summary;
    // Queues what adds the payload's counts to `row`. REQUIRES: bytes > 0.
    cudaError_t (*enqueue)(const Launch& launch, const uint8_t* data, uint32_t bytes,
                           uint32_t* row);
    bool overwrites_row = false;  // `enqueue` does not add to the row
    bool slow = false;
    // As CudaKernel::scratch_bytes; null: 0.
    uint64_t (*scratch_bytes)(const DeviceTraits& device, uint32_t payload_bytes_max) = nullptr;
  };
  constexpr explicit PerPayloadKernel(const Traits& traits) : traits_(traits) {}

  absl::string_view name() const override { return traits_.name; }
  absl::string_view summary() const override { return traits_.summary; }
  bool slow() const override { return traits_.slow; }
  uint64_t scratch_bytes(const DeviceTraits& device, uint32_t payload_bytes_max) const override {
    return traits_.scratch_bytes == nullptr ? 0 : traits_.scratch_bytes(device, payload_bytes_max);
  }
  absl::Status Enqueue(const Launch& launch) const override;

 private:
  const Traits traits_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_KERNELS_PER_PAYLOAD_H_
