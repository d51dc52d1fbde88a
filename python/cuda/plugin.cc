#include "python/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <histogram/binning.h>
#include <histogram/cuda.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>
#include <histogram/usable_cores.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using histogram::Binning;
using histogram::DeviceCounter;
using histogram::DeviceExtent;
using histogram::DeviceRange;
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
  DeviceCounter counter;
  int device;
  SampleType type;
  uint32_t bins;
  std::optional<Plan> plan = std::nullopt;  // of even bins there is none
  // Of the last count_rows, and what it is made for.
  std::optional<DeviceRows> rows = std::nullopt;
  HistogramRowCut cut = {};
  bool wide = false, own_ranges = false;
  uint64_t samples_max = 0;
  uint64_t samples = 0;
};

namespace {

constexpr uint32_t kAbi = 5;
// A counter keeps the device memory of smaller answers: to copy a larger one takes longer than to
// allocate it.
constexpr uint64_t kKeptRowBytesMax = uint64_t{4} << 20;
// Fewer threads write rows slower than they come.
constexpr uint32_t kReadThreads = 4;

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
    switch (failure->code) {
      case ErrorCode::kDevice:
        return -1;
      case ErrorCode::kBadRows:
        return -2;
      default:
        return -3;
    }
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

// Of a DeviceCounter, or of DeviceRows.
template <typename Counter>
std::optional<Error> SetRange(Counter& counter, const HistogramRange* range) {
  if (range == nullptr) return std::nullopt;
  return counter.SetRange({.lower = range->lower,
                           .upper = range->upper,
                           .edges = static_cast<DeviceRange::Edges>(range->edges)});
}

std::optional<Error> CheckSum(uint64_t sum, uint64_t samples) {
  if (sum == samples) return std::nullopt;
  return Error{.code = ErrorCode::kDevice,
               .message = "counts add up to " + std::to_string(sum) + ", not to the " +
                          std::to_string(samples) +
                          " samples: a defect of this library, or memory that changed meanwhile"};
}

void Write(const Histogram& histogram, int64_t* counts, int64_t* outside) {
  std::copy(histogram.counts.begin(), histogram.counts.end(), counts);
  outside[0] = static_cast<int64_t>(histogram.below);
  outside[1] = static_cast<int64_t>(histogram.above);
  outside[2] = static_cast<int64_t>(histogram.nan);
}

std::optional<Error> MakeRows(HistogramCounter& of, const HistogramRowCut& cut, bool wide,
                              uint64_t count) {
  if (of.rows.has_value() && of.cut == cut && of.wide == wide && count <= of.samples_max) {
    return std::nullopt;
  }
  of.rows.reset();
  const histogram::DeviceRowCut rows = {
      static_cast<uint32_t>(cut.channels), cut.window, cut.step, {}};
  const auto answer = wide ? DeviceRows::Answer::kWideCounts : DeviceRows::Answer::kCounts;
  Result<DeviceRows> made = of.plan.has_value()
                                ? DeviceRows::Make(*of.plan, rows, count, answer)
                                : DeviceRows::MakeEven(of.type, of.bins, rows, count, answer);
  if (!made.ok()) return made.error();
  of.rows = *std::move(made);
  of.cut = cut;
  of.wide = wide;
  of.samples_max = count;
  return std::nullopt;
}

std::optional<Error> CountRows(HistogramCounter& of, const HistogramRange* range,
                               const HistogramRowCut& cut, bool wide, const void* samples,
                               uint64_t count, CUstream_st* stream) {
  if (std::optional<Error> error = MakeRows(of, cut, wide, count)) return error;
  of.own_ranges = range != nullptr && range->edges == kHistogramOwnRanges;
  if (of.own_ranges) {
    of.rows->SetOwnRanges();
  } else if (std::optional<Error> error = SetRange(*of.rows, range)) {
    return error;
  }
  of.samples = count;
  return of.rows->Count(samples, count, stream);
}

// Also writes their ends, two for each, unless `ends` is null.
Result<std::vector<DeviceRange>> ReadOwnRanges(HistogramCounter& of, CUstream_st* stream,
                                               double* ends) {
  if (!of.own_ranges) return std::vector<DeviceRange>();
  Result<std::vector<DeviceRange>> ranges = of.rows->ReadRanges(stream);
  for (size_t r = 0; ends != nullptr && ranges.ok() && r < ranges->size(); ++r) {
    ends[2 * r] = (*ranges)[r].lower;
    ends[2 * r + 1] = (*ranges)[r].upper;
  }
  return ranges;
}

std::optional<Error> ReadRows(HistogramCounter& of, CUstream_st* stream, int64_t* counts,
                              int64_t* outside, double* ends) {
  const Result<std::vector<DeviceRange>> ranges = ReadOwnRanges(of, stream, ends);
  if (!ranges.ok()) return ranges.error();
  const uint64_t pixels = of.samples / of.cut.channels;
  const uint64_t window = of.cut.window == 0 ? pixels : of.cut.window;
  const uint64_t step = of.cut.step == 0 ? window : of.cut.step;
  std::mutex mutex;
  std::optional<Error> wrong;
  const auto write = [&](uint64_t r, std::span<const uint32_t> row, std::span<const uint32_t> out) {
    uint64_t sum = 0;
    const auto put = [&sum](std::span<const uint32_t> from, int64_t* to) {
      for (size_t i = 0; i < from.size(); ++i) {
        to[i] = from[i];
        sum += from[i];
      }
    };
    put(row, counts + r * of.bins);
    put(out, outside + r * out.size());
    const uint64_t begin = r / of.cut.channels * step;
    const bool counted = ranges->empty() || !std::isnan((*ranges)[r].lower);
    const uint64_t expected = counted ? std::min(window, pixels - begin) : 0;
    if (std::optional<Error> error = CheckSum(sum, expected)) {
      const std::scoped_lock lock(mutex);
      wrong = std::move(error);
    }
  };
  std::optional<Error> error =
      of.rows->ForEachRow(stream, write, std::min(kReadThreads, histogram::UsableCores()));
  const uint64_t bytes = of.rows->row_count() * of.bins * sizeof(uint32_t);
  if (!of.wide && bytes > kKeptRowBytesMax) of.rows.reset();  // wide rows may be looked at
  return error.has_value() ? error : wrong;
}

Result<std::vector<uint64_t>> SamplesAtRanks(SampleType type, int device, const void* samples,
                                             uint64_t count, uint64_t rows,
                                             std::span<const uint64_t> ranks, CUstream_st* stream) {
  // Find waits. So its thread may use the same memory again, on any stream.
  thread_local std::map<std::pair<int, SampleType>, DeviceRanks> searches;
  auto search = searches.find({device, type});
  if (search == searches.end()) {
    Result<DeviceRanks> made = DeviceRanks::Make(type);
    if (!made.ok()) return made.error();
    search = searches.emplace(std::pair(device, type), *std::move(made)).first;
  }
  Result<std::vector<uint64_t>> found = search->second.Find(samples, count, ranks, stream, rows);
  if (!found.ok()) searches.erase(search);
  return found;
}

CUstream_st* Stream(void* stream) { return static_cast<CUstream_st*>(stream); }

}  // namespace

uint32_t histogram_cuda_abi() { return kAbi; }

int histogram_cuda_make(const double* edges, size_t edge_count, const char* type, int device,
                        HistogramCounter** made, char* error, size_t error_bytes) {
  return Guarded(device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<Plan> plan = MakePlan({edges, edge_count}, type);
    if (!plan.ok()) return plan.error();
    Result<DeviceCounter> counter = DeviceCounter::Make(*plan);
    if (!counter.ok()) return counter.error();
    *made = new HistogramCounter{.counter = *std::move(counter),
                                 .device = device,
                                 .type = plan->type(),
                                 .bins = plan->bin_count(),
                                 .plan = *plan};
    return std::nullopt;
  });
}

int histogram_cuda_make_even(uint32_t bins, const char* type, int device, HistogramCounter** made,
                             char* error, size_t error_bytes) {
  return Guarded(device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<SampleType> sample_type = TypeNamed(type);
    if (!sample_type.ok()) return sample_type.error();
    Result<DeviceCounter> counter = DeviceCounter::MakeEven(*sample_type, bins);
    if (!counter.ok()) return counter.error();
    *made = new HistogramCounter{
        .counter = *std::move(counter), .device = device, .type = *sample_type, .bins = bins};
    return std::nullopt;
  });
}

void histogram_cuda_free(HistogramCounter* counter) {
  const OnDevice on_device(counter->device);
  delete counter;
}

int histogram_cuda_count(HistogramCounter* counter, const HistogramRange* range,
                         const void* samples, uint64_t count, void* stream, char* error,
                         size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&]() -> std::optional<Error> {
    if (std::optional<Error> wrong = SetRange(counter->counter, range)) return wrong;
    if (std::optional<Error> wrong = counter->counter.Clear(Stream(stream))) return wrong;
    if (count == 0) return std::nullopt;
    return counter->counter.Add(samples, count, Stream(stream));
  });
}

int histogram_cuda_read(HistogramCounter* counter, void* stream, int64_t* counts, int64_t* outside,
                        char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<Histogram> read = counter->counter.Read(Stream(stream));
    if (!read.ok()) return read.error();
    Write(*read, counts, outside);
    return std::nullopt;
  });
}

int histogram_cuda_count_and_read(HistogramCounter* counter, const HistogramRange* range,
                                  const void* samples, uint64_t count, void* stream,
                                  int64_t* counts, int64_t* outside, char* error,
                                  size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&]() -> std::optional<Error> {
    if (std::optional<Error> wrong = SetRange(counter->counter, range)) return wrong;
    const Result<Histogram> read = counter->counter.Count(samples, count, Stream(stream));
    if (!read.ok()) return read.error();
    Write(*read, counts, outside);
    return CheckSum(read->samples, count);
  });
}

const void* histogram_cuda_counts(const HistogramCounter* counter) {
  return counter->counter.device_counts();
}

int histogram_cuda_count_rows(HistogramCounter* counter, const HistogramRange* range,
                              const HistogramRowCut* cut, int wide, const void* samples,
                              uint64_t count, void* stream, char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&] {
    return CountRows(*counter, range, *cut, wide != 0, samples, count, Stream(stream));
  });
}

int histogram_cuda_read_rows(HistogramCounter* counter, void* stream, int64_t* counts,
                             int64_t* outside, double* ends, char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes},
                 [&] { return ReadRows(*counter, Stream(stream), counts, outside, ends); });
}

const void* histogram_cuda_rows(const HistogramCounter* counter) {
  return counter->rows->device_rows();
}

int histogram_cuda_extent(HistogramCounter* counter, const void* samples, uint64_t count,
                          void* stream, double* extent, char* error, size_t error_bytes) {
  return Guarded(counter->device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<DeviceExtent> found = counter->counter.FindExtent(samples, count, Stream(stream));
    if (!found.ok()) return found.error();
    extent[0] = found->least;
    extent[1] = found->greatest;
    return std::nullopt;
  });
}

int histogram_cuda_copy(int device, const void* samples, uint64_t bytes, void* stream, void* out,
                        char* error, size_t error_bytes) {
  return Guarded(device, {error, error_bytes}, [&]() -> std::optional<Error> {
    cudaError_t status =
        cudaMemcpyAsync(out, samples, bytes, cudaMemcpyDeviceToHost, Stream(stream));
    if (status == cudaSuccess) status = cudaStreamSynchronize(Stream(stream));
    if (status == cudaSuccess) return std::nullopt;
    return Error{.code = ErrorCode::kDevice,
                 .message = std::string("copying samples: ") + cudaGetErrorString(status)};
  });
}

int histogram_cuda_order_statistics(const char* type, int device, const void* samples,
                                    uint64_t count, uint64_t rows, void* stream,
                                    const uint64_t* ranks, size_t rank_count, void* out,
                                    char* error, size_t error_bytes) {
  return Guarded(device, {error, error_bytes}, [&]() -> std::optional<Error> {
    const Result<SampleType> sample_type = TypeNamed(type);
    if (!sample_type.ok()) return sample_type.error();
    const Result<std::vector<uint64_t>> found = SamplesAtRanks(
        *sample_type, device, samples, count, rows, {ranks, rank_count}, Stream(stream));
    if (!found.ok()) return found.error();
    const size_t size = SampleBytes(*sample_type);
    for (size_t i = 0; i < found->size(); ++i) {
      std::memcpy(static_cast<char*>(out) + i * size, &(*found)[i], size);  // little-endian
    }
    return std::nullopt;
  });
}
