// Counting typed samples that lie in a GPU's memory. Part of builds with CUDA; needs no CUDA
// header.
//
//   histogram::Result<histogram::DeviceCounter> counter = histogram::DeviceCounter::Make(*plan);
//   counter->Clear(stream);
//   counter->Add(samples, count, stream);
//   histogram::Result<histogram::Histogram> h = counter->Read(stream);
//
// Calls take effect in the order of the stream, and only Read waits for it. A call allocates
// nothing.
#ifndef HISTOGRAM_CUDA_H_
#define HISTOGRAM_CUDA_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/result.h>

#include <cstdint>
#include <memory>
#include <optional>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace histogram {

// The counters of one histogram, on the device that was current when it was made. Owns its device
// memory. One thread at a time; move-only. Errors are of kind kDevice and name CUDA's reason.
class DeviceCounter {
 public:
  // All counts are zero.
  static Result<DeviceCounter> Make(const Plan& plan);
  DeviceCounter(DeviceCounter&& other) noexcept;
  DeviceCounter& operator=(DeviceCounter&& other) noexcept;
  ~DeviceCounter();

  // Sets all counts to zero.
  std::optional<Error> Clear(CUstream_st* stream);

  // Adds `count` samples of the plan's type. `samples` is device memory, aligned to the sample, and
  // stays valid until the stream is past this call.
  std::optional<Error> Add(const void* samples, uint64_t count, CUstream_st* stream);

  // Waits for the stream. The histogram of all that was added since the counts were cleared.
  Result<Histogram> Read(CUstream_st* stream);

  // Device memory: a count for each bin, then the samples below, above, and NaN. The counter's own:
  // valid as long as it lives.
  const uint64_t* device_counts() const;

 private:
  struct Impl;
  explicit DeviceCounter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace histogram

#endif  // HISTOGRAM_CUDA_H_
