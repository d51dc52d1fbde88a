#include "python/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <histogram/binning.h>
#include <histogram/cuda.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

using histogram::Binning;
using histogram::DeviceCounter;
using histogram::Error;
using histogram::Histogram;
using histogram::ParseSampleType;
using histogram::Plan;
using histogram::Result;
using histogram::SampleType;

struct HistogramCounter {
  DeviceCounter counter;
  int device;
};

namespace {

constexpr uint32_t kAbi = 1;

struct ErrorText {
  char* text;
  size_t bytes;

  int Fill(std::string_view message) const {
    const size_t size = std::min(message.size(), bytes - 1);
    std::copy_n(message.data(), size, text);
    text[size] = 0;
    return -1;
  }
};

// Makes the device current, and the one before again at its end.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    status_ = cudaGetDevice(&before_);
    if (status_ != cudaSuccess || before_ == device) return;
    status_ = cudaSetDevice(device);
    changed_ = status_ == cudaSuccess;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  cudaError_t status() const { return status_; }

 private:
  cudaError_t status_ = cudaSuccess;
  int before_ = 0;
  bool changed_ = false;
};

// Runs work() on the device. No exception leaves it.
template <typename Work>
int Guarded(int device, const ErrorText& error, const Work& work) {
  try {
    const OnDevice on_device(device);
    if (on_device.status() != cudaSuccess) {
      return error.Fill("CUDA device " + std::to_string(device) + ": " +
                        cudaGetErrorString(on_device.status()));
    }
    const std::optional<Error> failure = work();
    return failure.has_value() ? error.Fill(failure->message) : 0;
  } catch (const std::exception& failure) {
    return error.Fill(failure.what());
  }
}

std::optional<Error> Make(std::span<const double> edges, SampleType type, int device,
                          HistogramCounter** made) {
  const Result<Binning> binning = Binning::Edges(edges, std::numeric_limits<uint32_t>::max());
  if (!binning.ok()) return binning.error();
  const Result<Plan> plan = Plan::Make(*binning, type);
  if (!plan.ok()) return plan.error();
  Result<DeviceCounter> counter = DeviceCounter::Make(*plan);
  if (!counter.ok()) return counter.error();
  *made = new HistogramCounter{*std::move(counter), device};
  return std::nullopt;
}

std::optional<Error> Count(DeviceCounter& counter, const void* samples, uint64_t count,
                           CUstream_st* stream) {
  if (std::optional<Error> error = counter.Clear(stream)) return error;
  if (count == 0) return std::nullopt;
  return counter.Add(samples, count, stream);
}

std::optional<Error> Read(DeviceCounter& counter, CUstream_st* stream, int64_t* counts,
                          int64_t* outside) {
  const Result<Histogram> read = counter.Read(stream);
  if (!read.ok()) return read.error();
  for (size_t i = 0; i < read->counts.size(); ++i) {
    counts[i] += static_cast<int64_t>(read->counts[i]);
  }
  outside[0] = static_cast<int64_t>(read->below);
  outside[1] = static_cast<int64_t>(read->above);
  outside[2] = static_cast<int64_t>(read->nan);
  return std::nullopt;
}

CUstream_st* Stream(void* stream) { return static_cast<CUstream_st*>(stream); }

}  // namespace

uint32_t histogram_cuda_abi() { return kAbi; }

HistogramCounter* histogram_cuda_make(const double* edges, size_t edge_count, const char* type,
                                      int device, char* error, size_t error_bytes) {
  const ErrorText text{error, error_bytes};
  const std::optional<SampleType> sample_type = ParseSampleType(type);
  if (!sample_type.has_value()) {
    text.Fill("no sample type '" + std::string(type) + "'");
    return nullptr;
  }
  HistogramCounter* made = nullptr;
  Guarded(device, text, [&] { return Make({edges, edge_count}, *sample_type, device, &made); });
  return made;
}

void histogram_cuda_free(HistogramCounter* counter) {
  const OnDevice on_device(counter->device);
  delete counter;
}

int histogram_cuda_count(HistogramCounter* counter, const void* samples, uint64_t count,
                         void* stream, char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes},
                 [&] { return Count(counter->counter, samples, count, Stream(stream)); });
}

int histogram_cuda_read(HistogramCounter* counter, void* stream, int64_t* counts, int64_t* outside,
                        char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes},
                 [&] { return Read(counter->counter, Stream(stream), counts, outside); });
}

int histogram_cuda_count_and_read(HistogramCounter* counter, const void* samples, uint64_t count,
                                  void* stream, int64_t* counts, int64_t* outside, char* error,
                                  size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&]() -> std::optional<Error> {
    std::optional<Error> failure = Count(counter->counter, samples, count, Stream(stream));
    if (failure.has_value()) return failure;
    return Read(counter->counter, Stream(stream), counts, outside);
  });
}

const void* histogram_cuda_counts(const HistogramCounter* counter) {
  return counter->counter.device_counts();
}
