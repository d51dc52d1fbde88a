// How a lane counts typed samples.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/lane/lane.h"
#include "kernels/cuda/lane/lane_layout.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {

absl::Status Lane::BeginTyped(const Batch& batch, std::shared_ptr<const TypedPlan> plan) {
  HISTOGRAM_RETURN_IF_ERROR(StartBatch(batch));
  const uint64_t slots = internal::SlotCount(plan->plan().bin_count());
  if (batch.items.size() > kLaneCounters / slots) {
    return absl::InvalidArgumentError("the batch needs more counters than the lane has");
  }
  kernel_ = nullptr;
  typed_ = std::move(plan);
  ladder_ = nullptr;
  mapped_ = false;
  rows_on_device_ = true;
  const absl::Span<const uint8_t> tables = typed_->tables();
  if (!tables.empty()) std::memcpy(input_.host(), tables.data(), tables.size());
  Layout(batch, AlignUp(tables.size(), kPieceAlignment));

  const AnyTypedBins bins = typed_->BinsAt(device_input_.get());
  HISTOGRAM_RETURN_IF_ERROR(PrepareTyped(typed_->plan().type(), bins, options_.device));
  HISTOGRAM_RETURN_IF_ERROR(InjectFault());
  const uint64_t rows_bytes = batch.items.size() * slots * sizeof(uint64_t);
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(device_rows_.get(), 0, rows_bytes, stream_.get()));
  for (size_t i = 0; i < portions_.size(); ++i) {
    HISTOGRAM_RETURN_IF_ERROR(CopyPortion(batch, i));
    HISTOGRAM_RETURN_IF_ERROR(EnqueueTypedPortion(portions_[i], bins));
  }
  HISTOGRAM_RETURN_IF_ERROR(CopyRowsBack(rows_bytes));
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaEventRecord(done_.get(), stream_.get()));
  done_recorded_ = true;
  launched_ns_ = NowNs();
  return absl::OkStatus();
}

// Pieces are whole samples: they end where their payload does, or at a multiple of kPieceAlignment.
absl::Status Lane::EnqueueTypedPortion(const Portion& portion, const AnyTypedBins& bins) {
  const SampleType type = typed_->plan().type();
  const uint64_t slots = internal::SlotCount(typed_->plan().bin_count());
  const auto* const descriptors =
      input_.host<PayloadDescriptor>(portion.begin + sizeof(BatchHeader));
  for (uint32_t i = 0; i < portion.piece_count; ++i) {
    assert(descriptors[i].bytes % SampleBytes(type) == 0);
    TypedLaunch launch;
    launch.type = type;
    launch.samples = device_input_.get(descriptors[i].offset);
    launch.count = descriptors[i].bytes / SampleBytes(type);
    launch.counts =
        device_rows_.get<unsigned long long>() + pieces_[portion.first_piece + i].item * slots;
    launch.device = &options_.device;
    launch.stream = stream_.get();
    HISTOGRAM_RETURN_IF_ERROR(EnqueueTyped(launch, bins));
  }
  return absl::OkStatus();
}

void Lane::CopyTypedRows(const Batch& batch) const {
  const uint64_t* row = rows_.host<uint64_t>();
  for (const BatchItem& item : batch.items) {
    assert(item.counts.size() == internal::SlotCount(typed_->plan().bin_count()));
    std::copy(row, row + item.counts.size(), item.counts.begin());
    row += item.counts.size();
  }
}

}  // namespace histogram::cuda
