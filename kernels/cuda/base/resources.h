// CUDA objects that free themselves: streams, events, graphs, pinned and device memory.
//
// Each is move-only and has one owner; not thread-safe beyond what CUDA itself allows. The free
// functions ignore errors: a destructor has nobody to tell. After a poisoned context nothing may be
// freed: leave the whole lane to the end of the process.
#ifndef HISTOGRAM_KERNELS_CUDA_BASE_RESOURCES_H_
#define HISTOGRAM_KERNELS_CUDA_BASE_RESOURCES_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace histogram::cuda {

// A CUDA handle and the function that destroys it.
template <typename Handle, cudaError_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      Reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Owned() { Reset(); }

  Handle get() const { return handle_; }

 private:
  void Reset() {
    if (handle_ != nullptr) static_cast<void>(kDestroy(handle_));
    handle_ = nullptr;
  }
  Handle handle_ = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;

absl::StatusOr<Stream> MakeStream();
// `flags` as cudaEventCreateWithFlags takes them.
absl::StatusOr<Event> MakeEvent(unsigned int flags);

// Page-locked host memory that every device can address, by unified addressing as the host does.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // Zeroed. REQUIRES: bytes > 0.
  static absl::StatusOr<PinnedBuffer> Make(uint64_t bytes);

  template <typename T = uint8_t>
  T* host(uint64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(memory_.get()) + offset_bytes);
  }
  template <typename T = uint8_t>
  T* device(uint64_t offset_bytes = 0) const {
    return host<T>(offset_bytes);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  Owned<void*, cudaFreeHost> memory_;
  uint64_t bytes_ = 0;
};

// Memory of the current device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Zeroed. Of 0 bytes: no memory.
  static absl::StatusOr<DeviceBuffer> Make(uint64_t bytes);
  // Holds a copy of host memory. Waits for the copy.
  static absl::StatusOr<DeviceBuffer> Holding(const void* from, uint64_t bytes);

  template <typename T = uint8_t>
  T* get(uint64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(memory_.get()) + offset_bytes);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  Owned<void*, cudaFree> memory_;
  uint64_t bytes_ = 0;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BASE_RESOURCES_H_
