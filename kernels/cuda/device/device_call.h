// Shared by the calls of <histogram/cuda.h>: their errors and histograms.
//
// Thread-safe: functions without state.
#ifndef HISTOGRAM_KERNELS_CUDA_DEVICE_DEVICE_CALL_H_
#define HISTOGRAM_KERNELS_CUDA_DEVICE_DEVICE_CALL_H_

#include <histogram/binning.h>
#include <histogram/cuda.h>
#include <histogram/number_text.h>
#include <histogram/result.h>
#include <histogram/sample_type.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/float_mode.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

inline std::optional<Error> ErrorOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  return Error{.code = ErrorCode::kDevice, .message = std::string(status.message())};
}
inline std::optional<Error> ErrorOf(std::optional<Error> error) { return error; }
template <typename T>
std::optional<Error> ErrorOf(const absl::StatusOr<T>& made) {
  return ErrorOf(made.status());
}

inline std::optional<Error> CheckAddress(const void* samples, SampleType type) {
  const size_t size = SampleBytes(type);
  if (reinterpret_cast<uintptr_t>(samples) % size == 0) return std::nullopt;
  return Error{.code = ErrorCode::kDevice,
               .message = "samples lie at an address that is no multiple of " +
                          std::to_string(size) + ", the size of " + std::string(NameOf(type)),
               .field = "samples"};
}

// An error where a counter takes no such even bins without a plan.
inline std::optional<Error> CheckEvenBins(SampleType type, uint32_t bins,
                                          const DeviceTraits& device) {
  if (bins > 0 && EvenBinsFit(type, bins, device)) return std::nullopt;
  return Error{.code = ErrorCode::kTooManyBins,
               .message = "bins: " + std::to_string(bins) + " of " + std::string(NameOf(type)) +
                          " without a plan; there must be one, and a block's shared memory must "
                          "hold a counter and an edge for each",
               .field = "bins"};
}

// The edges of a range, which are distinct. Sets the floating-point mode.
inline Result<EvenEdges> EdgesOf(const DeviceRange& range, uint32_t bins) {
  const internal::FloatMode mode;
  const EvenEdges edges =
      EvenEdgesOf(range.lower, range.upper, bins, static_cast<EdgeArithmetic>(range.edges));
  if (AreDistinct(edges)) return edges;
  return Error{.code = ErrorCode::kBadBinning,
               .message = "range: " + NumberText(range.lower) + " to " + NumberText(range.upper) +
                          " in " + std::to_string(bins) +
                          " bins; edges must be finite and increase by 4 units in the last place",
               .field = "range"};
}

// Copies counts to the host. Waits for the stream.
inline absl::Status ReadBack(const void* from, void* to, uint64_t bytes, CUstream_st* stream) {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  return ToStatus(cudaStreamSynchronize(stream), "reading the counts");
}

// The histogram of a row of counts. `outside`: the samples below, above and NaN.
template <typename Number>
Histogram ToHistogram(const Number* counts, uint64_t bins, const Number* outside) {
  Histogram histogram;
  histogram.counts.assign(counts, counts + bins);
  histogram.below = outside[internal::kBelowSlot];
  histogram.above = outside[internal::kAboveSlot];
  histogram.nan = outside[internal::kNanSlot];
  histogram.samples = std::accumulate(histogram.counts.begin(), histogram.counts.end(),
                                      histogram.below + histogram.above + histogram.nan);
  return histogram;
}

}  // namespace histogram::cuda

// Returns from the enclosing function, whose result may be an Error, where there is one.
#define HISTOGRAM_RETURN_ERROR_OF(...)                                                           \
  do {                                                                                           \
    std::optional<::histogram::Error> histogram_error = ::histogram::cuda::ErrorOf(__VA_ARGS__); \
    if (histogram_error.has_value()) return *std::move(histogram_error);                         \
  } while (false)

#endif  // HISTOGRAM_KERNELS_CUDA_DEVICE_DEVICE_CALL_H_
