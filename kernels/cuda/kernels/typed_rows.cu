// Counts any rows of typed samples, all in one launch: a block has a table in shared memory for the
// row, or for the piece of a row, that it counts.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/typed_find.cuh"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/cuda/kernels/typed_samples.cuh"

namespace histogram::cuda {
namespace {

// More threads leave more of them idle at a short row's end; fewer hide less of the memory's
// latency. Not measured apart.
constexpr uint32_t kThreads = 512;
constexpr uint32_t kLoads = 4;
constexpr uint32_t kWarpRows = 8;  // rows of a block whose entropy is computed, a warp each
// A row is cut into pieces where rows are few, but not into shorter ones: a piece clears and adds
// up a table of its own. Not measured apart.
constexpr uint64_t kPieceSamplesMin = 16384;

template <typename C>
struct Rows {
  TypedBins<C> bins;
  Keying<C> keying;
  RowsLaunch launch;
  uint32_t pieces = 1;  // of each row
};

template <typename S>
__device__ inline void CountPiece(const Rule<typename S::Compare>& rule,
                                  const Rows<typename S::Compare>& args,
                                  const typename S::Bits* samples, uint64_t count,
                                  uint32_t* table) {
  using Bits = typename S::Bits;
  const uint64_t stride = args.launch.stride;
  for (uint64_t i = threadIdx.x; i < count; i += kLoads * kThreads) {
    Bits loaded[kLoads];
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * kThreads < count) loaded[j] = samples[(i + j * kThreads) * stride];
    }
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      if (i + j * kThreads >= count) break;
      atomicAdd(&table[Permuted(SlotOf<S>(rule, WidenOne<S>(args.keying, loaded[j])))], 1U);
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    TypedRowsKernel(const __grid_constant__ Rows<typename S::Compare> args) {
  extern __shared__ uint32_t table[];
  const RowsLaunch& launch = args.launch;
  const Rule<typename S::Compare> rule{args.bins, args.bins.thresholds, args.bins.cells};
  const uint32_t bins = args.bins.bins, slots = bins + kOutsideSlots;
  const uint64_t units = launch.stretches * launch.channels * args.pieces;
  for (uint64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const uint64_t row = unit / args.pieces, piece = unit % args.pieces;
    const uint64_t stretch = row / launch.channels;
    uint64_t begin = stretch * launch.step, end = min(begin + launch.window, launch.pixels);
    if (launch.begins != nullptr) {
      begin = launch.begins[stretch];
      end = launch.begins[stretch + 1];
    } else if (launch.payloads != nullptr) {
      begin = launch.payloads[stretch].offset / sizeof(typename S::Bits);
      end = begin + launch.payloads[stretch].bytes / sizeof(typename S::Bits);
    }
    const uint64_t share = (end - begin + args.pieces - 1) / args.pieces;
    const uint64_t first = min(begin + piece * share, end), last = min(first + share, end);
    for (uint32_t i = threadIdx.x; i < (slots + 31) / 32 * 32; i += kThreads) table[i] = 0;
    __syncthreads();
    CountPiece<S>(rule, args,
                  static_cast<const typename S::Bits*>(launch.samples) + first * launch.stride +
                      row % launch.channels,
                  last - first, table);
    __syncthreads();
    for (uint32_t slot = threadIdx.x; slot < slots; slot += kThreads) {
      const uint32_t count = table[Permuted(slot)];
      uint32_t* const to = slot < bins ? &launch.counts[row * bins + slot]
                                       : &launch.outside[row * kOutsideSlots + (slot - bins)];
      if (args.pieces == 1) {
        *to = count;
      } else if (count != 0) {
        atomicAdd(to, count);
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kWarpRows * 32)
    RowEntropyKernel(const uint32_t* counts, uint64_t rows, uint32_t bins, float* entropy) {
  const uint64_t row = uint64_t{blockIdx.x} * kWarpRows + threadIdx.x / 32;
  if (row >= rows) return;
  double total = 0, sum = 0;
  for (uint32_t bin = threadIdx.x % 32; bin < bins; bin += 32) {
    const double count = counts[row * bins + bin];
    if (count == 0) continue;
    total += count;
    sum += count * log2(count);
  }
#pragma unroll
  for (uint32_t step = 16; step > 0; step /= 2) {
    total += __shfl_xor_sync(~0U, total, step);
    sum += __shfl_xor_sync(~0U, sum, step);
  }
  if (threadIdx.x % 32 != 0) return;
  entropy[row] = total == 0 ? 0.0F : static_cast<float>(fmax(0.0, log2(total) - sum / total));
}

}  // namespace

absl::Status EnqueueRows(const RowsLaunch& launch, const AnyTypedBins& any_bins) {
  const uint64_t rows = launch.stretches * launch.channels;
  if (rows == 0) return absl::OkStatus();
  return VisitSamples(launch.type, any_bins, [&]<typename S>(S, const auto& bins) -> absl::Status {
    Rows<typename S::Compare> args;
    args.bins = bins;
    args.keying = KeyingOf<S>(launch.type);
    args.launch = launch;
    if (launch.stride == 0) args.launch.stride = launch.channels;
    const uint64_t wanted = 4 * uint64_t{launch.device->multiprocessors};
    const uint64_t pieces_max = launch.longest / kPieceSamplesMin + 1;
    args.pieces = static_cast<uint32_t>(std::clamp<uint64_t>(wanted / rows, 1, pieces_max));
    if (args.pieces > 1) {
      HISTOGRAM_CUDA_RETURN_IF_ERROR(
          cudaMemsetAsync(launch.counts, 0, rows * bins.bins * sizeof(uint32_t), launch.stream));
      HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
          launch.outside, 0, rows * kOutsideSlots * sizeof(uint32_t), launch.stream));
    }
    const uint32_t shared_bytes = (bins.bins + kOutsideSlots + 31) / 32 * 32 * sizeof(uint32_t);
    HISTOGRAM_RETURN_IF_ERROR(PrepareRows(launch.type, any_bins, *launch.device));
    constexpr uint64_t kBlocksMax = 65536;
    TypedRowsKernel<S><<<static_cast<uint32_t>(std::min(rows * args.pieces, kBlocksMax)), kThreads,
                         shared_bytes, launch.stream>>>(args);
    return LaunchStatus("typed_rows");
  });
}

absl::Status PrepareRows(SampleType type, const AnyTypedBins& bins, const DeviceTraits& device) {
  return VisitSamples(type, bins, [&]<typename S>(S, const auto&) {
    // Always the same limit: it is the kernel's, and other threads launch it with other bins.
    return AllowShared(TypedRowsKernel<S>, TableRoom(device));
  });
}

absl::Status EnqueueEntropy(const uint32_t* counts, uint64_t rows, uint32_t bins, float* entropy,
                            cudaStream_t stream) {
  if (rows == 0) return absl::OkStatus();
  const uint64_t blocks = (rows + kWarpRows - 1) / kWarpRows;
  RowEntropyKernel<<<static_cast<uint32_t>(blocks), kWarpRows * 32, 0, stream>>>(counts, rows, bins,
                                                                                 entropy);
  return LaunchStatus("typed_rows");
}

}  // namespace histogram::cuda
