#include <histogram/cuda.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/resources.h"
#include "kernels/cuda/device_call.h"
#include "kernels/cuda/kernels/digits.h"
#include "kernels/quantile.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

using cuda::kRanksMax;

double ValueOfBits(uint64_t bits, SampleType type) {
  return internal::VisitSample(type, [&]<typename S>(S) {
    typename S::Bits sample;
    std::memcpy(&sample, &bits, sizeof(sample));  // little-endian
    return static_cast<double>(S::Widen(sample)) + 0.0;
  });
}

// Queues the searches for all ranks, which fill found[i] for ranks[i]. `search` has everything but
// the ranks and where their samples go.
absl::Status EnqueueSearches(cuda::DigitSearch search, std::span<const uint64_t> ranks,
                             uint64_t* found) {
  for (size_t first = 0; first < ranks.size(); first += kRanksMax) {
    search.rank_count = static_cast<uint32_t>(std::min<size_t>(ranks.size() - first, kRanksMax));
    std::copy_n(ranks.data() + first, search.rank_count, search.ranks);
    search.found = found + first;
    if (absl::Status status = cuda::EnqueueDigitSearch(search); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

struct DeviceQuantiles::Impl {
  SampleType type = SampleType::kF32;
  std::vector<double> quantiles;
  cuda::DeviceTraits device;
  cuda::DeviceBuffer workspace;
  cuda::PinnedBuffer found;  // a sample for each rank, and behind them the number of NaN
  // Of the last call of Find.
  uint64_t count = 0;
  std::vector<uint64_t> ranks;  // ascending
};

DeviceQuantiles::DeviceQuantiles(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceQuantiles::DeviceQuantiles(DeviceQuantiles&& other) noexcept = default;
DeviceQuantiles& DeviceQuantiles::operator=(DeviceQuantiles&& other) noexcept = default;
DeviceQuantiles::~DeviceQuantiles() = default;

Result<DeviceQuantiles> DeviceQuantiles::Make(SampleType type, std::span<const double> quantiles) {
  for (size_t i = 0; i < quantiles.size(); ++i) {
    if (quantiles[i] >= 0 && quantiles[i] <= 1) continue;
    return Error{.code = ErrorCode::kDevice,
                 .message = "quantiles[" + std::to_string(i) + "] is " +
                            std::to_string(quantiles[i]) + ": must be a number from 0 to 1",
                 .field = "quantiles"};
  }
  auto impl = std::make_unique<Impl>();
  impl->type = type;
  impl->quantiles.assign(quantiles.begin(), quantiles.end());
  impl->ranks.reserve(2 * quantiles.size());
  int device = 0;
  absl::Status status = cuda::ToStatus(cudaGetDevice(&device), "cudaGetDevice");
  if (status.ok()) status = cuda::ReadDeviceTraits(device, impl->device);
  if (!status.ok()) return cuda::ToError(status);
  absl::StatusOr<cuda::DeviceBuffer> workspace =
      cuda::DeviceBuffer::Make(cuda::kDigitWorkspaceBytes);
  if (!workspace.ok()) return cuda::ToError(workspace.status());
  impl->workspace = *std::move(workspace);
  absl::StatusOr<cuda::PinnedBuffer> found =
      cuda::PinnedBuffer::Make((2 * quantiles.size() + 1) * sizeof(uint64_t));
  if (!found.ok()) return cuda::ToError(found.status());
  impl->found = *std::move(found);
  return DeviceQuantiles(std::move(impl));
}

std::optional<Error> DeviceQuantiles::Find(const void* samples, uint64_t count,
                                           CUstream_st* stream) {
  if (std::optional<Error> error = cuda::CheckAddress(samples, impl_->type)) return error;
  std::vector<uint64_t>& ranks = impl_->ranks;
  impl_->count = count;
  ranks.clear();
  if (count == 0) return std::nullopt;
  for (const double q : impl_->quantiles) {
    static_cast<void>(internal::QuantileOf(count, q, [&](uint64_t rank) {
      ranks.push_back(rank);
      return 0.0;
    }));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  cuda::DigitSearch search;
  search.type = impl_->type;
  search.samples = samples;
  search.count = count;
  search.workspace = impl_->workspace.get();
  search.nans = impl_->found.device<uint64_t>(2 * impl_->quantiles.size() * sizeof(uint64_t));
  search.device = &impl_->device;
  search.stream = stream;
  return cuda::ToOptional(EnqueueSearches(search, ranks, impl_->found.device<uint64_t>()));
}

Result<std::vector<double>> DeviceQuantiles::Read(CUstream_st* stream) {
  const absl::Status status = cuda::ToStatus(cudaStreamSynchronize(stream), "reading quantiles");
  if (!status.ok()) return cuda::ToError(status);
  const std::vector<double>& quantiles = impl_->quantiles;
  const auto* const found = impl_->found.host<uint64_t>();
  const bool has_nan = impl_->count > 0 && found[2 * quantiles.size()] > 0;
  if (impl_->count == 0 || has_nan) {
    return std::vector<double>(quantiles.size(), std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<uint64_t>& ranks = impl_->ranks;
  std::vector<double> values;
  values.reserve(quantiles.size());
  for (const double q : quantiles) {
    values.push_back(internal::QuantileOf(impl_->count, q, [&](uint64_t rank) {
      const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
      return ValueOfBits(found[at], impl_->type);
    }));
  }
  return values;
}

Result<std::vector<uint64_t>> SamplesAtRanks(SampleType type, const void* samples, uint64_t count,
                                             std::span<const uint64_t> ranks, CUstream_st* stream) {
  if (std::optional<Error> error = cuda::CheckAddress(samples, type)) return *std::move(error);
  if (ranks.empty()) return std::vector<uint64_t>();
  int device = 0;
  cuda::DeviceTraits traits;
  absl::Status status = cuda::ToStatus(cudaGetDevice(&device), "cudaGetDevice");
  if (status.ok()) status = cuda::ReadDeviceTraits(device, traits);
  if (!status.ok()) return cuda::ToError(status);
  const absl::StatusOr<cuda::DeviceBuffer> workspace =
      cuda::DeviceBuffer::Make(cuda::kDigitWorkspaceBytes);
  if (!workspace.ok()) return cuda::ToError(workspace.status());
  const absl::StatusOr<cuda::PinnedBuffer> found =
      cuda::PinnedBuffer::Make((ranks.size() + 1) * sizeof(uint64_t));
  if (!found.ok()) return cuda::ToError(found.status());
  cuda::DigitSearch search;
  search.type = type;
  search.samples = samples;
  search.count = count;
  search.workspace = workspace->get();
  search.nans = found->device<uint64_t>(ranks.size() * sizeof(uint64_t));
  search.device = &traits;
  search.stream = stream;
  status = EnqueueSearches(search, ranks, found->device<uint64_t>());
  if (status.ok()) status = cuda::ToStatus(cudaStreamSynchronize(stream), "reading the samples");
  if (!status.ok()) return cuda::ToError(status);
  const auto* const first = found->host<uint64_t>();
  return std::vector<uint64_t>(first, first + ranks.size());
}

}  // namespace histogram
