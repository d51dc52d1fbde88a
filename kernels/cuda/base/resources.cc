#include "kernels/cuda/base/resources.h"

#include <cstring>

#include "kernels/cuda/base/cuda_status.h"

namespace histogram::cuda {

absl::StatusOr<Stream> MakeStream() {
  cudaStream_t stream = nullptr;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

absl::StatusOr<Event> MakeEvent(unsigned int flags) {
  cudaEvent_t event = nullptr;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Make(uint64_t bytes) {
  PinnedBuffer buffer;
  void* host = nullptr;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(
      cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  buffer.memory_ = Owned<void*, cudaFreeHost>(host);
  buffer.bytes_ = bytes;
  std::memset(host, 0, bytes);
  return buffer;
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Make(uint64_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  void* memory = nullptr;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMalloc(&memory, bytes));
  buffer.memory_ = Owned<void*, cudaFree>(memory);
  buffer.bytes_ = bytes;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemset(memory, 0, bytes));
  // The memset runs on the default stream, which the lanes' streams do not wait for.
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr));
  return buffer;
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Holding(const void* from, uint64_t bytes) {
  absl::StatusOr<DeviceBuffer> buffer = Make(bytes);
  if (!buffer.ok() || bytes == 0) return buffer;
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpy(buffer->get(), from, bytes, cudaMemcpyHostToDevice));
  // A copy from pageable memory may return before it is done.
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr));
  return buffer;
}

}  // namespace histogram::cuda
