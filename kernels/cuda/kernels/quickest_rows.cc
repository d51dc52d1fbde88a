// Chooses the kernel that counts rows.
#include <algorithm>
#include <tuple>

#include "absl/status/statusor.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/typed_rows.h"

namespace histogram::cuda {
namespace {

// Whole windows of bytes by their own kernel. Returns the rows that are left.
absl::StatusOr<RowsLaunch> CountByteWindows(const RowsLaunch& launch, uint32_t bins,
                                            float* entropy) {
  RowsLaunch whole = launch, rest = launch;
  // Only the last stretch can be shorter.
  const bool shorter = (launch.stretches - 1) * launch.step + launch.window > launch.pixels;
  if (shorter) --whole.stretches;
  HISTOGRAM_RETURN_IF_ERROR(EnqueueByteWindows(whole, entropy));
  if (entropy == nullptr) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
        launch.outside, 0, whole.stretches * kOutsideSlots * sizeof(uint32_t), launch.stream));
  }
  const uint64_t done = whole.stretches * launch.step;
  rest.samples = static_cast<const uint8_t*>(launch.samples) + done;
  rest.pixels = launch.pixels - std::min(done, launch.pixels);
  rest.stretches -= whole.stretches;
  rest.counts += whole.stretches * bins;
  rest.outside += whole.stretches * kOutsideSlots;
  return rest;
}

}  // namespace

absl::Status EnqueueQuickestRows(const RowsLaunch& launch, const AnyTypedBins& bins,
                                 float* entropy) {
  if (launch.stretches == 0) return absl::OkStatus();
  const auto [bin_count, slot_of, bin_for_each_byte] = std::visit(
      [](const auto& b) { return std::tuple(b.bins, b.slot_of, b.bin_for_each_byte); }, bins);
  RowsLaunch rest = launch;
  if (bin_for_each_byte && ByteWindowsTake(launch)) {
    HISTOGRAM_ASSIGN_OR_RETURN(rest, CountByteWindows(launch, bin_count, entropy));
    if (rest.stretches == 0) return absl::OkStatus();
  }
  const bool interleaved = slot_of != nullptr && launch.stretches == 1 &&
                           launch.begins == nullptr && launch.window >= launch.pixels &&
                           launch.pixels > 0 && launch.stride == 0 && launch.channels >= 2 &&
                           launch.channels <= kByteChannelsMax && HasByteTables(*launch.device);
  HISTOGRAM_RETURN_IF_ERROR(interleaved ? EnqueueByteChannels(rest, bin_count, slot_of)
                                        : EnqueueRows(rest, bins));
  if (entropy == nullptr) return absl::OkStatus();
  return EnqueueEntropy(rest.counts, rest.stretches * rest.channels, bin_count,
                        entropy + (launch.stretches - rest.stretches) * rest.channels,
                        launch.stream);
}

}  // namespace histogram::cuda
