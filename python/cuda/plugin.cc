#include "python/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <histogram/binning.h>
#include <histogram/cuda.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using histogram::Binning;
using histogram::DeviceCounter;
using histogram::DeviceRanks;
using histogram::DeviceRows;
using histogram::Error;
using histogram::ErrorCode;
using histogram::Histogram;
using histogram::ParseSampleType;
using histogram::Plan;
using histogram::Result;
using histogram::SampleType;

struct HistogramCounter {
  Plan plan;
  DeviceCounter counter;
  int device;
  // Of the last count_rows, and what it is made for.
  std::optional<DeviceRows> rows = std::nullopt;
  HistogramRowCut cut = {};
  uint64_t samples_max = 0;
};

namespace {

constexpr uint32_t kAbi = 3;
// A counter keeps the device memory of smaller answers: to copy a larger one takes longer than to
// allocate it.
constexpr uint64_t kKeptRowBytesMax = uint64_t{4} << 20;

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
    if (!failure.has_value()) return 0;
    error.Fill(failure->message);
    return failure->code == ErrorCode::kDevice ? -1 : -2;
  } catch (const std::exception& failure) {
    return error.Fill(failure.what());
  }
}

Result<SampleType> TypeNamed(std::string_view name) {
  const std::optional<SampleType> type = ParseSampleType(name);
  if (type.has_value()) return *type;
  return Error{.code = ErrorCode::kDevice, .message = "no sample type '" + std::string(name) + "'"};
}

Result<Plan> MakePlan(std::span<const double> edges, std::string_view type_name) {
  const Result<SampleType> type = TypeNamed(type_name);
  if (!type.ok()) return type.error();
  const Result<Binning> binning = Binning::Edges(edges, std::numeric_limits<uint32_t>::max());
  if (!binning.ok()) return binning.error();
  return Plan::Make(*binning, *type);
}

std::optional<Error> Make(std::span<const double> edges, std::string_view type, int device,
                          HistogramCounter** made) {
  const Result<Plan> plan = MakePlan(edges, type);
  if (!plan.ok()) return plan.error();
  Result<DeviceCounter> counter = DeviceCounter::Make(*plan);
  if (!counter.ok()) return counter.error();
  *made = new HistogramCounter{*plan, *std::move(counter), device};
  return std::nullopt;
}

std::optional<Error> Count(DeviceCounter& counter, const void* samples, uint64_t count,
                           CUstream_st* stream) {
  if (std::optional<Error> error = counter.Clear(stream)) return error;
  if (count == 0) return std::nullopt;
  return counter.Add(samples, count, stream);
}

std::optional<Error> CheckSum(const Histogram& histogram, uint64_t samples) {
  if (histogram.samples == samples) return std::nullopt;
  return Error{.code = ErrorCode::kDevice,
               .message = "counts add up to " + std::to_string(histogram.samples) +
                          ", not to the " + std::to_string(samples) +
                          " samples: a defect of this library, or memory that changed meanwhile"};
}

void Write(const Histogram& histogram, int64_t* counts, int64_t* outside) {
  std::copy(histogram.counts.begin(), histogram.counts.end(), counts);
  outside[0] = static_cast<int64_t>(histogram.below);
  outside[1] = static_cast<int64_t>(histogram.above);
  outside[2] = static_cast<int64_t>(histogram.nan);
}

std::optional<Error> Read(DeviceCounter& counter, CUstream_st* stream, int64_t* counts,
                          int64_t* outside) {
  const Result<Histogram> read = counter.Read(stream);
  if (!read.ok()) return read.error();
  Write(*read, counts, outside);
  return std::nullopt;
}

std::optional<Error> CountAndRead(DeviceCounter& counter, const void* samples, uint64_t count,
                                  CUstream_st* stream, int64_t* counts, int64_t* outside) {
  const Result<Histogram> read = counter.Count(samples, count, stream);
  if (!read.ok()) return read.error();
  Write(*read, counts, outside);
  return CheckSum(*read, count);
}

std::optional<Error> MakeRows(HistogramCounter& of, const HistogramRowCut& cut, uint64_t count) {
  if (of.rows.has_value() && of.cut == cut && count <= of.samples_max) return std::nullopt;
  of.rows.reset();
  Result<DeviceRows> made = DeviceRows::Make(
      of.plan, {static_cast<uint32_t>(cut.channels), cut.window, cut.step, {}}, count);
  if (!made.ok()) return made.error();
  of.rows = *std::move(made);
  of.cut = cut;
  of.samples_max = count;
  return std::nullopt;
}

std::optional<Error> CountRows(HistogramCounter& of, const HistogramRowCut& cut,
                               const void* samples, uint64_t count, CUstream_st* stream,
                               int64_t* counts, int64_t* outside) {
  if (std::optional<Error> error = MakeRows(of, cut, count)) return error;
  if (std::optional<Error> error = of.rows->Count(samples, count, stream)) return error;
  const Result<std::vector<Histogram>> read = of.rows->Read(stream);
  if (!read.ok()) return read.error();
  const uint64_t bins = of.plan.bin_count();
  if (read->size() * bins * sizeof(uint32_t) > kKeptRowBytesMax) of.rows.reset();
  const uint64_t pixels = count / cut.channels;
  const uint64_t window = cut.window == 0 ? pixels : cut.window;
  const uint64_t step = cut.step == 0 ? window : cut.step;
  for (uint64_t r = 0; r < read->size(); ++r) {
    const Histogram& row = (*read)[r];
    Write(row, counts + r * bins, outside + r * 3);
    const uint64_t begin = r / cut.channels * step;
    if (std::optional<Error> error = CheckSum(row, std::min(window, pixels - begin))) return error;
  }
  return std::nullopt;
}

Result<std::vector<uint64_t>> SamplesAtRanks(SampleType type, int device, const void* samples,
                                             uint64_t count, std::span<const uint64_t> ranks,
                                             CUstream_st* stream) {
  // Find waits. So its thread may use the same memory again, on any stream.
  thread_local std::map<std::pair<int, SampleType>, DeviceRanks> searches;
  auto search = searches.find({device, type});
  if (search == searches.end()) {
    Result<DeviceRanks> made = DeviceRanks::Make(type);
    if (!made.ok()) return made.error();
    search = searches.emplace(std::pair(device, type), *std::move(made)).first;
  }
  Result<std::vector<uint64_t>> found = search->second.Find(samples, count, ranks, stream);
  if (!found.ok()) searches.erase(search);
  return found;
}

CUstream_st* Stream(void* stream) { return static_cast<CUstream_st*>(stream); }

}  // namespace

uint32_t histogram_cuda_abi() { return kAbi; }

HistogramCounter* histogram_cuda_make(const double* edges, size_t edge_count, const char* type,
                                      int device, char* error, size_t error_bytes) {
  HistogramCounter* made = nullptr;
  Guarded(device, {error, error_bytes}, [&] {
    return Make({edges, edge_count}, type, device, &made);
  });
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
  return Guarded(counter->device, {error, error_bytes}, [&] {
    return CountAndRead(counter->counter, samples, count, Stream(stream), counts, outside);
  });
}

const void* histogram_cuda_counts(const HistogramCounter* counter) {
  return counter->counter.device_counts();
}

int histogram_cuda_count_rows(HistogramCounter* counter, const HistogramRowCut* cut,
                              const void* samples, uint64_t count, void* stream, int64_t* counts,
                              int64_t* outside, char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&] {
    return CountRows(*counter, *cut, samples, count, Stream(stream), counts, outside);
  });
}

int histogram_cuda_order_statistics(const char* type, int device, const void* samples,
                                    uint64_t count, void* stream, const uint64_t* ranks,
                                    size_t rank_count, void* out, char* error, size_t error_bytes) {
  return Guarded(device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<SampleType> sample_type = TypeNamed(type);
    if (!sample_type.ok()) return sample_type.error();
    const Result<std::vector<uint64_t>> found =
        SamplesAtRanks(*sample_type, device, samples, count, {ranks, rank_count}, Stream(stream));
    if (!found.ok()) return found.error();
    const size_t size = SampleBytes(*sample_type);
    for (size_t i = 0; i < found->size(); ++i) {
      std::memcpy(static_cast<char*>(out) + i * size, &(*found)[i], size);  // little-endian
    }
    return std::nullopt;
  });
}
