// How a lane executes phases. Its input holds the tables, where stretches begin, then the part of
// the payload that is loaded.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/cuda/backend/lane/streaming_copy.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/plan_data.h"

namespace histogram::cuda {
namespace {

// Gathered, then copied while the next is gathered. Smaller ones overlap more and cost some
// microseconds each. Not measured apart.
constexpr uint64_t kSliceBytes = uint64_t{4} << 20;

// Where the part begins: as far behind the tables as those of a lane's counters may reach.
uint64_t PartAt() { return AlignUp(TableBytesMax(kLaneCounters), kPieceAlignment); }
// Where stretches begin: behind the tables of rows.
uint64_t BeginsAt(const DeviceTraits& device) {
  return AlignUp(TableBytesMax(RowBinsMax(device)), kPieceAlignment);
}

}  // namespace

void Lane::StartPhases() {
  start_ns_ = NowNs();
  gather_ns_ = kernel_ns_ = 0;
  part_bytes_ = 0;
}

uint64_t Lane::RowsMax(uint32_t bins) const {
  const uint64_t row_bytes = internal::SlotCount(bins) * sizeof(uint32_t);
  const uint64_t begins = (PartAt() - BeginsAt(options_.device)) / sizeof(uint64_t);
  return std::min(device_rows_.bytes() / row_bytes, begins - 1);
}

absl::Status Lane::Load(std::span<const Fragment> payload, uint64_t at, uint64_t bytes) {
  part_bytes_ = bytes;
  for (uint64_t done = 0; done < bytes; done += kSliceBytes) {
    const uint64_t slice = std::min(kSliceBytes, bytes - done);
    const uint64_t to = PartAt() + done, start = NowNs();
    StreamingCopy(input_.host(to), payload, at + done, slice);
    StreamingFence();
    gather_ns_ += NowNs() - start;
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(device_input_.get(to), input_.host(to), slice,
                                                   cudaMemcpyHostToDevice, stream_.get()));
  }
  return absl::OkStatus();
}

absl::Span<const uint8_t> Lane::SetBins(const Plan& plan, bool with_tables) {
  sample_type_ = plan.type();
  bin_count_ = plan.bin_count();
  typed_ = nullptr;
  const internal::EdgeRule& rule = plan.binning().edge_rule();
  const EvenEdges edges = {
      .lower = rule.lower, .upper = rule.upper, .step = rule.step, .bins = rule.bins};
  const bool even = plan.binning().has_edges() && rule.listed == nullptr && rule.slack == 0;
  if (even && !with_tables && EvenBinsFit(sample_type_, bin_count_, options_.device) &&
      AreDistinct(edges)) {
    bins_ = MakeEvenBins(sample_type_, edges);
    return {};
  }
  typed_ = TypedPlan::Of(plan);
  bins_ = typed_->BinsAt(device_input_.get());
  return typed_->tables();
}

absl::Status Lane::UsePlan(const Plan& plan, bool with_tables) {
  const absl::Span<const uint8_t> tables = SetBins(plan, with_tables);
  if (tables.empty()) return absl::OkStatus();
  std::memcpy(input_.host(), tables.data(), tables.size());
  return ToStatus(cudaMemcpyAsync(device_input_.get(), input_.host(), tables.size(),
                                  cudaMemcpyHostToDevice, stream_.get()),
                  "cudaMemcpyAsync");
}

absl::Status Lane::BeginStep() {
  kernel_ = nullptr;
  ladder_ = nullptr;
  fetched_ = false;
  if (++sequence_ == 0) sequence_ = 1;  // 0 is what the flag holds at first
  return ToStatus(cudaEventRecord(copied_.get(), stream_.get()), "cudaEventRecord");
}

// A fault is injected last: a kernel that hangs holds up the loading of others.
absl::Status Lane::EndQueueing(uint64_t bytes) {
  HISTOGRAM_RETURN_IF_ERROR(InjectFault());
  return CopyBack(bytes);
}

absl::Status Lane::BeginExtent(SampleType type) {
  HISTOGRAM_RETURN_IF_ERROR(BeginStep());
  ExtentLaunch launch;
  launch.type = type;
  launch.samples = device_input_.get(PartAt());
  launch.count = part_bytes_ / SampleBytes(type);
  launch.words = clean_.get<uint64_t>();
  launch.extent = control_.device<Extent>(kExtentAt);
  launch.flag = control_.device<uint32_t>(kFlagAt);
  launch.value = sequence_;
  launch.device = &options_.device;
  launch.stream = stream_.get();
  HISTOGRAM_RETURN_IF_ERROR(EnqueueExtent(launch));
  return EndQueueing(0);
}

absl::Status Lane::BeginCount(bool first) {
  HISTOGRAM_RETURN_IF_ERROR(PrepareTable(sample_type_, bins_, options_.device));
  HISTOGRAM_RETURN_IF_ERROR(BeginStep());
  const uint64_t bytes = internal::SlotCount(bin_count_) * sizeof(uint64_t);
  if (first) {
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(device_rows_.get(), 0, bytes, stream_.get()));
  }
  HISTOGRAM_RETURN_IF_ERROR(EnqueueTypedCount(PartAt(), part_bytes_, 0));
  return EndQueueing(bytes);
}

absl::Status Lane::BeginRows(RowsLaunch launch, uint64_t offset,
                             absl::Span<const uint64_t> begins) {
  const uint64_t begins_at = BeginsAt(options_.device);
  if (!begins.empty()) {
    const uint64_t size = begins.size() * sizeof(begins[0]);
    std::memcpy(input_.host(begins_at), begins.data(), size);
    HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(device_input_.get(begins_at),
                                                   input_.host(begins_at), size,
                                                   cudaMemcpyHostToDevice, stream_.get()));
    launch.begins = device_input_.get<uint64_t>(begins_at);
  }
  HISTOGRAM_RETURN_IF_ERROR(BeginStep());
  step_rows_ = launch.stretches * launch.channels;
  launch.type = sample_type_;
  launch.samples = device_input_.get(PartAt() + offset);
  launch.counts = device_rows_.get<uint32_t>();
  launch.outside = launch.counts + step_rows_ * bin_count_;
  launch.device = &options_.device;
  launch.stream = stream_.get();
  HISTOGRAM_RETURN_IF_ERROR(EnqueueQuickestRows(launch, bins_, nullptr));
  return EndQueueing(step_rows_ * internal::SlotCount(bin_count_) * sizeof(uint32_t));
}

void Lane::EndStep() {
  float ms = 0;
  if (cudaEventElapsedTime(&ms, copied_.get(), done_.get()) != cudaSuccess) return;
  kernel_ns_ += static_cast<uint64_t>(std::max(0.0F, ms) * 1e6F);
}

void Lane::ReportPhases(BatchReport& report) const {
  const uint64_t busy_ns = NowNs() - start_ns_;
  report.gather_ns = std::min(gather_ns_, busy_ns);
  report.kernel_ns = std::clamp<uint64_t>(kernel_ns_, 1, std::max<uint64_t>(1, busy_ns));
  report.transfer_ns = busy_ns - std::min(busy_ns, report.gather_ns + report.kernel_ns);
}

}  // namespace histogram::cuda
