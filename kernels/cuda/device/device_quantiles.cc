#include <histogram/cuda.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/device/device_call.h"
#include "kernels/cuda/kernels/digits.h"
#include "kernels/float_mode.h"
#include "kernels/order_statistics.h"
#include "kernels/sample.h"

namespace histogram {
namespace {

using cuda::kRanksMax;

// Of DeviceRanks, between two waits. Not measured apart.
constexpr size_t kRanksAtOnce = 256;

// Searches for up to `ranks_max` ranks, on the device that was current in Make.
struct Searcher {
  static absl::StatusOr<Searcher> Make(SampleType type, size_t ranks_max);

  // Queues the searches, which fill found()[at + i] for ranks[i]. REQUIRES: as EnqueueDigitSearch,
  // and the stream has executed what was queued before with the same `at`.
  absl::Status Enqueue(const void* samples, uint64_t count, std::span<const uint64_t> ranks,
                       CUstream_st* stream, size_t at = 0) const;
  const uint64_t* found() const { return words.host<uint64_t>(); }
  uint64_t nans() const { return found()[ranks_max]; }

  SampleType type = SampleType::kF32;
  size_t ranks_max = 0;
  cuda::DeviceTraits device;
  cuda::DeviceBuffer workspace;
  cuda::PinnedBuffer words;  // a sample for each rank, and behind them the number of NaN
};

absl::StatusOr<Searcher> Searcher::Make(SampleType type, size_t ranks_max) {
  Searcher searcher;
  searcher.type = type;
  searcher.ranks_max = ranks_max;
  HISTOGRAM_RETURN_IF_ERROR(cuda::ReadDeviceTraits(cuda::kCurrentDevice, searcher.device));
  HISTOGRAM_ASSIGN_OR_RETURN(searcher.workspace,
                             cuda::DeviceBuffer::Make(cuda::kDigitWorkspaceBytes));
  HISTOGRAM_ASSIGN_OR_RETURN(searcher.words,
                             cuda::PinnedBuffer::Make((ranks_max + 1) * sizeof(uint64_t)));
  return searcher;
}

absl::Status Searcher::Enqueue(const void* samples, uint64_t count, std::span<const uint64_t> ranks,
                               CUstream_st* stream, size_t at) const {
  cuda::DigitSearch search;
  search.type = type;
  search.samples = samples;
  search.count = count;
  search.workspace = workspace.get();
  search.nans = words.device<uint64_t>(ranks_max * sizeof(uint64_t));
  search.device = &device;
  search.stream = stream;
  for (size_t first = 0; first < ranks.size(); first += kRanksMax) {
    search.rank_count = static_cast<uint32_t>(std::min<size_t>(ranks.size() - first, kRanksMax));
    std::copy_n(ranks.data() + first, search.rank_count, search.ranks);
    search.found = words.device<uint64_t>((at + first) * sizeof(uint64_t));
    HISTOGRAM_RETURN_IF_ERROR(cuda::EnqueueDigitSearch(search));
  }
  return absl::OkStatus();
}

}  // namespace

struct DeviceQuantiles::Impl {
  Searcher searcher;
  std::vector<double> quantiles;
  // Of the last call of Find.
  uint64_t count = 0;
  std::vector<uint64_t> ranks;  // ascending
};

Result<DeviceQuantiles> DeviceQuantiles::Make(SampleType type, std::span<const double> quantiles) {
  for (size_t i = 0; i < quantiles.size(); ++i) {
    if (quantiles[i] >= 0 && quantiles[i] <= 1) continue;
    return Error{.code = ErrorCode::kDevice,
                 .message = "quantiles[" + std::to_string(i) + "] is " +
                            std::to_string(quantiles[i]) + ": must be a number from 0 to 1",
                 .field = "quantiles"};
  }
  absl::StatusOr<Searcher> searcher = Searcher::Make(type, 2 * quantiles.size());
  HISTOGRAM_RETURN_ERROR_OF(searcher);
  auto impl = std::make_unique<Impl>();
  impl->searcher = *std::move(searcher);
  impl->quantiles.assign(quantiles.begin(), quantiles.end());
  impl->ranks.reserve(2 * quantiles.size());
  return DeviceQuantiles(std::move(impl));
}

std::optional<Error> DeviceQuantiles::Find(const void* samples, uint64_t count,
                                           CUstream_st* stream) {
  HISTOGRAM_RETURN_ERROR_OF(cuda::CheckAddress(samples, impl_->searcher.type));
  std::vector<uint64_t>& ranks = impl_->ranks;
  impl_->count = count;
  ranks.clear();
  if (count == 0) return std::nullopt;
  internal::InFloatMode([&] { internal::AppendRanks(count, impl_->quantiles, ranks); });
  return cuda::ErrorOf(impl_->searcher.Enqueue(samples, count, ranks, stream));
}

Result<std::vector<double>> DeviceQuantiles::Read(CUstream_st* stream) {
  HISTOGRAM_RETURN_ERROR_OF(cuda::ToStatus(cudaStreamSynchronize(stream), "reading quantiles"));
  const std::vector<double>& quantiles = impl_->quantiles;
  if (impl_->count == 0 || impl_->searcher.nans() > 0) {
    return std::vector<double>(quantiles.size(), std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<uint64_t>& ranks = impl_->ranks;
  std::vector<double> values;
  values.reserve(quantiles.size());
  for (const double q : quantiles) {
    values.push_back(internal::InFloatMode([&] {
      return internal::QuantileOf(impl_->count, q, [&](uint64_t rank) {
        const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
        return internal::ValueOfBits(impl_->searcher.found()[at], impl_->searcher.type);
      });
    }));
  }
  return values;
}

struct DeviceRanks::Impl {
  Searcher searcher;
};

Result<DeviceRanks> DeviceRanks::Make(SampleType type) {
  absl::StatusOr<Searcher> searcher = Searcher::Make(type, kRanksAtOnce);
  HISTOGRAM_RETURN_ERROR_OF(searcher);
  return DeviceRanks(std::make_unique<Impl>(Impl{*std::move(searcher)}));
}

Result<std::vector<uint64_t>> DeviceRanks::Find(const void* samples, uint64_t count,
                                                std::span<const uint64_t> ranks,
                                                CUstream_st* stream, uint64_t rows) {
  const Searcher& searcher = impl_->searcher;
  HISTOGRAM_RETURN_ERROR_OF(cuda::CheckAddress(samples, searcher.type));
  const uint64_t row_bytes = count * SampleBytes(searcher.type);
  std::vector<uint64_t> found;
  found.reserve(rows * ranks.size());
  size_t queued = 0;  // between two waits
  const auto take = [&] {
    const absl::Status status =
        cuda::ToStatus(cudaStreamSynchronize(stream), "reading the samples");
    if (status.ok()) found.insert(found.end(), searcher.found(), searcher.found() + queued);
    queued = 0;
    return status;
  };
  for (uint64_t row = 0; row < rows; ++row) {
    const auto* const of_row = static_cast<const std::byte*>(samples) + row * row_bytes;
    for (auto rest = ranks; !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), kRanksAtOnce - queued));
      HISTOGRAM_RETURN_ERROR_OF(searcher.Enqueue(of_row, count, some, stream, queued));
      queued += some.size();
      if (queued == kRanksAtOnce) HISTOGRAM_RETURN_ERROR_OF(take());
      rest = rest.subspan(some.size());
    }
  }
  HISTOGRAM_RETURN_ERROR_OF(take());
  return found;
}

}  // namespace histogram
