// Counting the rows of a payload on a device, all in one launch: a histogram for each.
//
// Sample i belongs to channel i % channels; a stretch of the samples of one channel makes a row for
// each channel, as RowCut (histogram/rows.h) says. Plain data and functions without state;
// thread-safe.
#ifndef HISTOGRAM_CUDA_KERNELS_TYPED_ROWS_H_
#define HISTOGRAM_CUDA_KERNELS_TYPED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/typed.h"

namespace histogram::cuda {

// The ends of a row's bins; both are NaN where the row has no bins, and then it is not counted: it
// has no samples, or one that is not finite, or its edges are not distinct (AreDistinct).
struct RowEnds {
  double lower, upper;
};

// All memory is the caller's and stays valid until the launch is done.
struct RowsLaunch {
  SampleType type = SampleType::kF32;
  const void* samples = nullptr;  // device memory, aligned to the sample
  uint64_t pixels = 0;            // samples of each channel
  uint32_t channels = 1;
  uint32_t stride = 0;  // samples of a pixel, where not all channels are counted; 0: `channels`
  uint64_t stretches = 0;
  // Stretch s begins at s * step and has `window` samples of each channel, or those that are left.
  uint64_t window = 0, step = 0;
  // Device memory, stretches + 1, instead of the two: where each stretch begins.
  const uint64_t* begins = nullptr;
  // Device memory, stretches, instead of them: where each lies, in bytes from `samples`; of one
  // channel.
  const PayloadDescriptor* payloads = nullptr;
  uint64_t longest = 0;  // no row has more samples
  // Even bins of MakeEvenBins only, which take one channel and no `begins`. Each row's bins begin
  // at its least and end at its greatest sample; if these are equal, half below and half above it.
  bool own_ranges = false;
  RowEnds* ends = nullptr;      // own ranges: device memory, one a row; overwritten
  uint64_t* extents = nullptr;  // own ranges: device memory, two words a row; holds anything
  // Device memory, overwritten. Of each row the bins' counts, and kOutsideSlots others.
  uint32_t* counts = nullptr;
  uint32_t* outside = nullptr;
  const DeviceTraits* device = nullptr;
  cudaStream_t stream = nullptr;
};

// Any rows. REQUIRES: the bins are of the type in which launch.type is compared; TableParts of them
// is 1, or EvenBinsFit and they are those of MakeEvenBins, for own ranges over any range with the
// arithmetic that they take; launch.longest < 2^32.
absl::Status EnqueueRows(const RowsLaunch& launch, const AnyTypedBins& bins);
// As PrepareTable, for the kernel by which EnqueueRows counts. EnqueueRows calls it, too: a call
// before that spares it the loading.
absl::Status PrepareRows(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device);

// The most bins of a row: a block's shared memory holds a table of so many.
inline uint32_t RowBinsMax(const DeviceTraits& device) {
  return device.shared_bytes_max / sizeof(uint32_t) - 64;
}

// What reports call these kernels.
inline constexpr absl::string_view kTypedRowsName = "typed_rows";
inline constexpr absl::string_view kTypedRowsSummary =
    "rows of samples, each into a table of the bins in shared memory";

// The entropy of each row, in bits, from its counts. Right to 1e-5.
absl::Status EnqueueEntropy(const uint32_t* counts, uint64_t rows, uint32_t bins, float* entropy,
                            cudaStream_t stream);

// Queues the rows' counts in u64, one row after the other: its bins, then the samples outside.
absl::Status EnqueueWiden(const uint32_t* counts, const uint32_t* outside, uint64_t rows,
                          uint32_t bins, uint64_t* wide, cudaStream_t stream);

// Whether dynamic shared memory lies where the kernels for bytes want it, and is large enough:
// their tables' address is part of the instructions that count.
inline constexpr uint32_t kByteTablesAt = 1024;
inline constexpr uint32_t kByteTablesBytesMax = 3 * 65536 + 1024;
inline bool HasByteTables(const DeviceTraits& device) {
  return device.compute_capability >= 80 && device.shared_bytes_reserved == kByteTablesAt &&
         device.shared_bytes_max >= kByteTablesBytesMax;
}

// Interleaved channels of samples of 8 bits, one stretch. `slot_of`: as in TypedBins.
// REQUIRES: launch.channels is from 2 to kByteChannelsMax; HasByteTables.
inline constexpr uint32_t kByteChannelsMax = 6;
absl::Status EnqueueByteChannels(const RowsLaunch& launch, uint32_t bins, const uint32_t* slot_of);

// Windows of bytes, one channel, a bin for each value. Writes counts, or where `entropy` is not
// null only the entropy of each window.
// REQUIRES: ByteWindowsTake; launch.stretches counts whole windows only.
absl::Status EnqueueByteWindows(const RowsLaunch& launch, float* entropy);
bool ByteWindowsTake(const RowsLaunch& launch);

// Any rows, by the quickest of the kernels above. `entropy`: that of each row, or null; if it is
// set, the counts may be missing.
absl::Status EnqueueQuickestRows(const RowsLaunch& launch, const AnyTypedBins& bins,
                                 float* entropy);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_CUDA_KERNELS_TYPED_ROWS_H_
