// Counts typed samples that lie in a GPU's memory. Part of builds with CUDA; needs no CUDA header.
//
//   histogram::Result<histogram::DeviceCounter> counter = histogram::DeviceCounter::Make(*plan);
//   counter->Clear(stream);
//   counter->Add(samples, count, stream);
//   histogram::Result<histogram::Histogram> h = counter->Read(stream);
//
// Plans without tables get them in Make. Calls take effect in the order of the stream. Count and
// FindExtent of a DeviceCounter, ForEachRow of DeviceRows, Find of DeviceRanks, and calls named
// Read... wait for the stream.
// Only Make and MakeEven allocate device memory.
#ifndef HISTOGRAM_CUDA_H_
#define HISTOGRAM_CUDA_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/result.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace histogram {

// Even bins: edge i is i * step + lower with step = (upper - lower) / bins, and the last is
// `upper`.
struct DeviceRange {
  // kDouble: as Binning::Even. kRounded: the same, then rounded to float. kFloat: computed in
  // float. As numpy.histogram(x, bins, range) and numpy.histogram(x, bins) do for x of float32.
  enum class Edges : uint8_t { kDouble, kRounded, kFloat };
  double lower = 0, upper = 0;
  Edges edges = Edges::kDouble;
};

// The least and the greatest of some samples; of 64-bit integers the nearest doubles. The greatest
// is NaN if a sample is.
struct DeviceExtent {
  double least = 0, greatest = 0;
};

// The counters of one histogram, on the device that was current in Make. Owns its device memory.
// Move-only. Not thread-safe. Errors have the code kDevice where no function names another.
class DeviceCounter {
 public:
  static constexpr uint64_t kSamplesAtOnce = uint64_t{1} << 26;

  // All counts are zero. A plan of more bins than 5 tables in shared memory hold (290,000 on an
  // H100) takes 2 bytes of device memory for each of `samples_at_once`. Add counts a longer array
  // in several passes. Fails for a plan of bytes (OfBytes). REQUIRES: samples_at_once > 0.
  static Result<DeviceCounter> Make(const Plan& plan, uint64_t samples_at_once = kSamplesAtOnce);
  // A counter of so many even bins, without a plan. REQUIRES: SetRange before the first sample.
  // Fails with kTooManyBins if a block's shared memory does not hold a counter and an edge for each
  // bin (29,000 of samples of up to 32 bits on an H100, 19,000 of 64).
  static Result<DeviceCounter> MakeEven(SampleType type, uint32_t bins);
  DeviceCounter(DeviceCounter&&) = default;
  DeviceCounter& operator=(DeviceCounter&&) = default;

  // The bins of later calls are even, as many as before, over this range. Neither allocates nor
  // copies. Waits only where it loads the kernel, after Make. Fails with kBadBinning if edges are
  // not finite, do not increase or lie closer than 4 units in the last place, and as MakeEven.
  std::optional<Error> SetRange(const DeviceRange& range);
  // The edges of the last range.
  std::vector<double> Edges() const;

  // Waits for the stream. REQUIRES: count > 0.
  Result<DeviceExtent> FindExtent(const void* samples, uint64_t count, CUstream_st* stream);

  // Sets all counts to zero.
  std::optional<Error> Clear(CUstream_st* stream);

  // Adds `count` samples of the plan's type. `samples` is device memory, aligned to the sample. It
  // stays valid until the stream has executed this call.
  std::optional<Error> Add(const void* samples, uint64_t count, CUstream_st* stream);

  // Waits for the stream. Returns the histogram of all samples added since the last Clear.
  Result<Histogram> Read(CUstream_st* stream);

  // Clears, adds and reads in one call: faster for few samples. Afterwards all counts are zero.
  Result<Histogram> Count(const void* samples, uint64_t count, CUstream_st* stream);

  // Device memory: the count of each bin, then the samples below, above, and NaN. The counter owns
  // it.
  const uint64_t* device_counts() const;

 private:
  struct Impl;
  explicit DeviceCounter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// How samples are cut into rows; each row gets its own histogram. Sample i belongs to channel
// i % channels. Each channel is cut into the same stretches, and each stretch of each channel is a
// row: row = stretch * channels + channel. Lengths are in samples of one channel.
struct DeviceRowCut {
  uint32_t channels = 1;
  // Stretches of `window` samples, one begins every `step`. step 0: every `window`, and the rest
  // makes a shorter last stretch. window 0: one stretch of all samples.
  uint64_t window = 0, step = 0;
  std::vector<uint64_t> lengths = {};  // instead of windows: the length of each stretch, in order
};

// The histograms of rows, or their entropies, on the device that was current in Make. Owns its
// device memory. Move-only. Not thread-safe. Errors have the code kDevice, or kBadRows: the cut is
// invalid or does not fit the samples, or samples (2^32 - 1 in a row) or bins are too many.
class DeviceRows {
 public:
  // kWideCounts: kCounts, and device_rows.
  enum class Answer : uint8_t { kCounts, kEntropy, kWideCounts };

  // Makes room for the answers of up to `samples_max` samples. Fails if they do not make whole
  // rows, if the bins do not fit one table in shared memory (58,000 on an H100), and for a plan of
  // bytes.
  static Result<DeviceRows> Make(const Plan& plan, const DeviceRowCut& cut, uint64_t samples_max,
                                 Answer answer = Answer::kCounts);
  // Even bins without a plan, for windows of one channel; REQUIRES: SetRange or SetOwnRanges before
  // Count. Fails as DeviceCounter::MakeEven, too.
  static Result<DeviceRows> MakeEven(SampleType type, uint32_t bins, const DeviceRowCut& cut,
                                     uint64_t samples_max, Answer answer = Answer::kCounts);
  // The bins of later calls. REQUIRES: MakeEven. Over this range: as DeviceCounter::SetRange.
  std::optional<Error> SetRange(const DeviceRange& range);
  // Of each row from its least to its greatest sample; where they are equal, from half below to
  // half above. Edges of floats of up to 32 bits are computed in float (kFloat), as
  // numpy.histogram(row, bins) does for float32. Ends that are 64-bit integers are rounded
  // outwards.
  void SetOwnRanges();
  DeviceRows(DeviceRows&&) = default;
  DeviceRows& operator=(DeviceRows&&) = default;

  // Queues the count of all rows. `samples`: as in DeviceCounter::Add. The fastest cases:
  // two to six interleaved channels of 8 bits in one stretch; windows of 1, 2 or 4 KiB of u8 with a
  // bin for each value, at addresses that are multiples of 16.
  std::optional<Error> Count(const void* samples, uint64_t count, CUstream_st* stream);

  // The number of rows of the last count.
  uint64_t row_count() const;
  // Waits for the stream. Returns a histogram for each row. REQUIRES: not made for kEntropy.
  Result<std::vector<Histogram>> Read(CUstream_st* stream);
  // The same without a Histogram for each row: waits for the stream, then calls visit with its
  // number, the count of each bin, and the samples below, above, and NaN. Up to `threads` threads
  // call it at the same time.
  using VisitRow =
      std::function<void(uint64_t, std::span<const uint32_t>, std::span<const uint32_t>)>;
  std::optional<Error> ForEachRow(CUstream_st* stream, const VisitRow& visit, uint32_t threads = 1);
  // Waits for the stream. The ends of each row's own bins; NaN for a row that was not counted: it
  // has no samples or one that is not finite, or SetRange would refuse its range.
  Result<std::vector<DeviceRange>> ReadRanges(CUstream_st* stream);
  // Waits for the stream. Returns the entropy of each row's bins, in bits, correct to 1e-5; 0 if no
  // sample of the row is in a bin. REQUIRES: made for kEntropy.
  Result<std::vector<float>> ReadEntropy(CUstream_st* stream);

  // Device memory that this object owns. Row by row: the count of each bin; the samples below,
  // above, and NaN. REQUIRES: not made for kEntropy.
  const uint32_t* device_counts() const;
  const uint32_t* device_outside() const;
  // The same in one piece and in 64 bits, a row's bins before its others. REQUIRES: kWideCounts.
  const uint64_t* device_rows() const;
  // Device memory that this object owns: a number for each row. REQUIRES: made for kEntropy.
  const float* device_entropy() const;

 private:
  struct Impl;
  explicit DeviceRows(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// Exact quantiles, as numpy.quantile(..., method='linear') defines them, of samples on the device
// that was current in Make. Integers of 64 bits are reported as the nearest double. Owns its device
// memory. Move-only. Not thread-safe. Errors have the code kDevice.
class DeviceQuantiles {
 public:
  // `quantiles`: each from 0 to 1. Each group of eight takes one pass over samples of 8 bits, two
  // over 16, three over 32 and six over 64.
  static Result<DeviceQuantiles> Make(SampleType type, std::span<const double> quantiles);
  static Result<DeviceQuantiles> Make(SampleType type, std::initializer_list<double> quantiles) {
    return Make(type, std::span<const double>(quantiles.begin(), quantiles.size()));
  }
  DeviceQuantiles(DeviceQuantiles&&) = default;
  DeviceQuantiles& operator=(DeviceQuantiles&&) = default;

  // Queues the search. `samples`: as in DeviceCounter::Add. REQUIRES: the stream has executed the
  // previous Find.
  std::optional<Error> Find(const void* samples, uint64_t count, CUstream_st* stream);

  // Waits for the stream. Returns the quantiles of the last Find, in the order of Make. All are NaN
  // if a sample is NaN or there are no samples.
  Result<std::vector<double>> Read(CUstream_st* stream);

 private:
  struct Impl;
  explicit DeviceQuantiles(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// The samples at given ranks in the ascending order of all samples, on the device that was current
// in Make. Owns its device memory. Move-only. Not thread-safe. Errors have the code kDevice.
class DeviceRanks {
 public:
  static Result<DeviceRanks> Make(SampleType type);
  DeviceRanks(DeviceRanks&&) = default;
  DeviceRanks& operator=(DeviceRanks&&) = default;

  // Waits for the stream. Returns a sample's bits for each rank, in the least significant bytes.
  // NaN is the greatest sample, and -0.0 has the bits of 0.0. `samples`: as in DeviceCounter::Add.
  // A search for 16 ranks takes as many passes as DeviceQuantiles. With `rows`, as many rows of
  // `count` samples follow each other, and the answers of one row those of the row before.
  // REQUIRES: ranks ascend, and each is less than `count`.
  Result<std::vector<uint64_t>> Find(const void* samples, uint64_t count,
                                     std::span<const uint64_t> ranks, CUstream_st* stream,
                                     uint64_t rows = 1);

 private:
  struct Impl;
  explicit DeviceRanks(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace histogram

#endif  // HISTOGRAM_CUDA_H_
