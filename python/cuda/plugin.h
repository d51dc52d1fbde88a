// Functions that the Python package calls to count samples in a GPU's memory: <histogram/cuda.h>
// behind plain C, so that one shared object serves every version of Python. The package loads it
// (ctypes) when a GPU's array comes; python/histogram/_gpu_plugin.py repeats these declarations.
//
// Functions that can fail return 0; or they fill `error` with a text that ends in 0, and return -1
// if the device fails, -2 for bad input, -3 for even bins that need tables (DeviceCounter::SetRange
// and MakeEven). A counter is used by one thread at a time.
#ifndef HISTOGRAM_PYTHON_CUDA_PLUGIN_H_
#define HISTOGRAM_PYTHON_CUDA_PLUGIN_H_

#include <cstddef>
#include <cstdint>

#define HISTOGRAM_PLUGIN extern "C" __attribute__((visibility("default")))

struct HistogramCounter;

// Raised when a function here changes.
HISTOGRAM_PLUGIN uint32_t histogram_cuda_abi();

// Makes a counter on a device, between edges as Plan::Make takes them, for samples of the type of
// that name.
HISTOGRAM_PLUGIN int histogram_cuda_make(const double* edges, size_t edge_count, const char* type,
                                         int device, HistogramCounter** made, char* error,
                                         size_t error_bytes);
// A counter of so many even bins. Each call names their range.
HISTOGRAM_PLUGIN int histogram_cuda_make_even(uint32_t bins, const char* type, int device,
                                              HistogramCounter** made, char* error,
                                              size_t error_bytes);
HISTOGRAM_PLUGIN void histogram_cuda_free(HistogramCounter* counter);

// The range of even bins, as DeviceRange. Below: null for a counter between edges. With rows
// `edges` may be kHistogramOwnRanges: DeviceRows::SetOwnRanges.
constexpr uint32_t kHistogramOwnRanges = 3;
struct HistogramRange {
  double lower, upper;
  uint32_t edges;
};

// Queues on the stream: the counts become those of these samples.
HISTOGRAM_PLUGIN int histogram_cuda_count(HistogramCounter* counter, const HistogramRange* range,
                                          const void* samples, uint64_t count, void* stream,
                                          char* error, size_t error_bytes);
// Waits for the stream. Writes the count of each bin to `counts`, and below, above and nan.
HISTOGRAM_PLUGIN int histogram_cuda_read(HistogramCounter* counter, void* stream, int64_t* counts,
                                         int64_t* outside, char* error, size_t error_bytes);
// Both at once, and faster. Fails unless the counts add up to the samples.
HISTOGRAM_PLUGIN int histogram_cuda_count_and_read(HistogramCounter* counter,
                                                   const HistogramRange* range, const void* samples,
                                                   uint64_t count, void* stream, int64_t* counts,
                                                   int64_t* outside, char* error,
                                                   size_t error_bytes);
// In the device's memory: a count for each bin, then below, above and nan.
HISTOGRAM_PLUGIN const void* histogram_cuda_counts(const HistogramCounter* counter);

// How samples are cut into rows, as DeviceRowCut says: window 0 is one stretch of all samples.
struct HistogramRowCut {
  uint64_t channels, window, step;
  bool operator==(const HistogramRowCut&) const = default;
};

// Queues on the stream the count of each row. With `wide` histogram_cuda_rows has the counts, too.
// Calls with the same cut and as many samples, or fewer, use the memory of the first one again.
HISTOGRAM_PLUGIN int histogram_cuda_count_rows(HistogramCounter* counter,
                                               const HistogramRange* range,
                                               const HistogramRowCut* cut, int wide,
                                               const void* samples, uint64_t count, void* stream,
                                               char* error, size_t error_bytes);
// Waits for the stream. Writes the count of each bin for each row of the last count, and below,
// above and nan of each row. Fails unless each row's counts add up to its samples. Over own ranges:
// writes the ends of each row's bins to `ends`, unless that is null; NaN for a row that was not
// counted, as DeviceRows::ReadRanges says.
HISTOGRAM_PLUGIN int histogram_cuda_read_rows(HistogramCounter* counter, void* stream,
                                              int64_t* counts, int64_t* outside, double* ends,
                                              char* error, size_t error_bytes);
// In the device's memory, row by row: a count for each bin, then below, above and nan. REQUIRES:
// the last count was wide.
HISTOGRAM_PLUGIN const void* histogram_cuda_rows(const HistogramCounter* counter);

// Waits for the stream. Writes the least and the greatest of the samples: of 64-bit integers the
// nearest doubles. The greatest is NaN if a sample is. REQUIRES: count > 0.
HISTOGRAM_PLUGIN int histogram_cuda_extent(HistogramCounter* counter, const void* samples,
                                           uint64_t count, void* stream, double* extent,
                                           char* error, size_t error_bytes);

// Waits for the stream. Copies samples to the CPU's memory.
HISTOGRAM_PLUGIN int histogram_cuda_copy(int device, const void* samples, uint64_t bytes,
                                         void* stream, void* out, char* error, size_t error_bytes);

// Waits for the stream. Of each of so many rows of `count` samples, which follow each other, writes
// the samples at the ranks, which ascend, to `out`.
HISTOGRAM_PLUGIN int histogram_cuda_order_statistics(const char* type, int device,
                                                     const void* samples, uint64_t count,
                                                     uint64_t rows, void* stream,
                                                     const uint64_t* ranks, size_t rank_count,
                                                     void* out, char* error, size_t error_bytes);

#endif  // HISTOGRAM_PYTHON_CUDA_PLUGIN_H_
