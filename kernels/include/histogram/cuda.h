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
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace histogram {

// The counters of one histogram, on the device that was current when it was made. Owns its device
// memory. One thread at a time; move-only. Errors are of kind kDevice and name CUDA's reason.
class DeviceCounter {
 public:
  static constexpr uint64_t kSamplesAtOnce = uint64_t{1} << 26;

  // All counts are zero. Plans of more bins than 5 tables in shared memory hold (290,000 on an
  // H100) take 2 bytes of device memory for each of `samples_at_once`; Add counts more samples in
  // several goes. REQUIRES: samples_at_once > 0.
  static Result<DeviceCounter> Make(const Plan& plan, uint64_t samples_at_once = kSamplesAtOnce);
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

  // Clears, adds and reads in one call, which is quicker for few samples. All counts are zero
  // afterwards.
  Result<Histogram> Count(const void* samples, uint64_t count, CUstream_st* stream);

  // Device memory: a count for each bin, then the samples below, above, and NaN. The counter's own:
  // valid as long as it lives.
  const uint64_t* device_counts() const;

 private:
  struct Impl;
  explicit DeviceCounter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// How samples are cut into rows, each with a histogram of its own. Sample i belongs to channel
// i % channels; a stretch of the samples of one channel makes a row for each channel:
// row = stretch * channels + channel.
struct DeviceRowCut {
  uint32_t channels = 1;
  // Stretches of `window` samples, one beginning every `step`. step 0: every `window`, and what is
  // left over makes a shorter last one. window 0: one stretch.
  uint64_t window = 0, step = 0;
  std::vector<uint64_t> lengths = {};  // instead of windows: of the stretches, one after another
};

// The histograms of rows, or their entropies, on the device that was current when it was made. Owns
// its device memory. One thread at a time; move-only. Errors are of kind kDevice, or kBadRows where
// the samples do not make the rows.
class DeviceRows {
 public:
  enum class Answer : uint8_t { kCounts, kEntropy };

  // Holds the answers for up to `samples_max` samples. Fails where they do not make whole rows, and
  // for more bins than a table in shared memory has (58,000 on an H100).
  static Result<DeviceRows> Make(const Plan& plan, const DeviceRowCut& cut, uint64_t samples_max,
                                 Answer answer = Answer::kCounts);
  DeviceRows(DeviceRows&& other) noexcept;
  DeviceRows& operator=(DeviceRows&& other) noexcept;
  ~DeviceRows();

  // Queues the count of all rows. `samples` as DeviceCounter::Add takes them. Quickest for
  // interleaved channels of 8 bits, two to six, and for windows of 1, 2 or 4 KiB of u8 with a bin
  // for each value, at addresses that are multiples of 16.
  std::optional<Error> Count(const void* samples, uint64_t count, CUstream_st* stream);

  // Rows of the last count.
  uint64_t row_count() const;
  // Waits for the stream. A histogram for each row. REQUIRES: made for kCounts.
  Result<std::vector<Histogram>> Read(CUstream_st* stream);
  // Waits for the stream. For each row the entropy of its bins, in bits, right to 1e-5; 0 where no
  // sample is in a bin. REQUIRES: made for kEntropy.
  Result<std::vector<float>> ReadEntropy(CUstream_st* stream);

  // Device memory, valid as long as this lives: for each row a count of each bin; for each row the
  // samples below, above, and NaN. REQUIRES: made for kCounts.
  const uint32_t* device_counts() const;
  const uint32_t* device_outside() const;
  // Device memory: a number for each row. REQUIRES: made for kEntropy.
  const float* device_entropy() const;

 private:
  struct Impl;
  explicit DeviceRows(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Exact quantiles of samples that lie on the device that was current when it was made, as
// numpy.quantile(..., method='linear') defines them; integers of 64 bits are reported as the
// nearest double. Owns its device memory. One thread at a time; move-only. Errors are of kind
// kDevice.
class DeviceQuantiles {
 public:
  // `quantiles`: each from 0 to 1. Each eight of them take three passes over samples of 32 bits,
  // six over 64, two over 16 and one over 8.
  static Result<DeviceQuantiles> Make(SampleType type, std::span<const double> quantiles);
  static Result<DeviceQuantiles> Make(SampleType type, std::initializer_list<double> quantiles) {
    return Make(type, std::span<const double>(quantiles.begin(), quantiles.size()));
  }
  DeviceQuantiles(DeviceQuantiles&& other) noexcept;
  DeviceQuantiles& operator=(DeviceQuantiles&& other) noexcept;
  ~DeviceQuantiles();

  // Queues the search. `samples` as DeviceCounter::Add takes them. The stream of the call before is
  // past that call.
  std::optional<Error> Find(const void* samples, uint64_t count, CUstream_st* stream);

  // Waits for the stream. The quantiles of the last call, in the order they were asked for; each is
  // NaN where a sample is NaN or there is none.
  Result<std::vector<double>> Read(CUstream_st* stream);

 private:
  struct Impl;
  explicit DeviceQuantiles(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace histogram

#endif  // HISTOGRAM_CUDA_H_
