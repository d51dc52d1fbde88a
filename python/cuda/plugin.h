// What the Python package calls to count samples in a GPU's memory: <histogram/cuda.h> behind plain
// C, so that one shared object serves every version of Python. The package loads it (ctypes) when a
// GPU's array comes; python/histogram/_gpu.py repeats these declarations.
//
// Functions that can fail return 0, or fill `error` with a text that ends in 0. A counter is used
// by one thread at a time.
#ifndef HISTOGRAM_PYTHON_CUDA_PLUGIN_H_
#define HISTOGRAM_PYTHON_CUDA_PLUGIN_H_

#include <cstddef>
#include <cstdint>

#define HISTOGRAM_PLUGIN extern "C" __attribute__((visibility("default")))

struct HistogramCounter;

// Raised when a function here changes.
HISTOGRAM_PLUGIN uint32_t histogram_cuda_abi();

// A counter on a device, between edges as Plan::Make takes them, for samples of the type of that
// name. Null where that fails.
HISTOGRAM_PLUGIN HistogramCounter* histogram_cuda_make(const double* edges, size_t edge_count,
                                                       const char* type, int device, char* error,
                                                       size_t error_bytes);
HISTOGRAM_PLUGIN void histogram_cuda_free(HistogramCounter* counter);

// Queues on the stream: the counts become those of these samples.
HISTOGRAM_PLUGIN int histogram_cuda_count(HistogramCounter* counter, const void* samples,
                                          uint64_t count, void* stream, char* error,
                                          size_t error_bytes);
// Waits for the stream. Adds a count for each bin to `counts`, and writes below, above and nan.
HISTOGRAM_PLUGIN int histogram_cuda_read(HistogramCounter* counter, void* stream, int64_t* counts,
                                         int64_t* outside, char* error, size_t error_bytes);
// Both at once.
HISTOGRAM_PLUGIN int histogram_cuda_count_and_read(HistogramCounter* counter, const void* samples,
                                                   uint64_t count, void* stream, int64_t* counts,
                                                   int64_t* outside, char* error,
                                                   size_t error_bytes);
// In the device's memory: a count for each bin, then below, above and nan.
HISTOGRAM_PLUGIN const void* histogram_cuda_counts(const HistogramCounter* counter);

#endif  // HISTOGRAM_PYTHON_CUDA_PLUGIN_H_
