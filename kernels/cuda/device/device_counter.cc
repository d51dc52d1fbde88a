#include <histogram/cuda.h>

#include <atomic>
#include <utility>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/device/device_call.h"
#include "kernels/cuda/kernels/extent.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/float_mode.h"

namespace histogram {
namespace {

using cuda::CheckAddress;
using cuda::ErrorOf;

// Of more, the copy engine is as quick as the block that moves the row. A call on 65,536 samples
// takes 14.5 us in one launch, where three took 20.5 (H200, d727295; a null launch takes 8.5
// to 9.6).
constexpr uint32_t kOneLaunchBinsMax = 16384;
// How often a flag is looked at before the stream is asked, so that an error is found. Not measured
// apart.
constexpr uint32_t kSpins = 4096;

// Waits until what was queued on the stream has set the flag.
absl::Status WaitFor(uint32_t* flag, uint32_t value, cudaStream_t stream) {
  const std::atomic_ref<uint32_t> seen(*flag);
  while (true) {
    for (uint32_t spin = 0; spin < kSpins; ++spin) {
      if (seen.load(std::memory_order_acquire) == value) return absl::OkStatus();
    }
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaErrorNotReady) continue;
    if (error != cudaSuccess) return cuda::ToStatus(error, "counting");
    if (seen.load(std::memory_order_acquire) == value) return absl::OkStatus();
    return absl::InternalError("counting: the stream is done, and the counts did not come");
  }
}

}  // namespace

struct DeviceCounter::Impl {
  // Reads the device's traits, and allocates all but tables and workspace.
  absl::Status Allocate();
  absl::Status Fill(const Plan& of, uint64_t samples_at_once);

  uint32_t slots() const { return internal::SlotCount(bin_count); }
  uint64_t bytes() const { return uint64_t{slots()} * sizeof(uint64_t); }

  cuda::TypedLaunch Launch(const void* samples, uint64_t sample_count, cudaStream_t stream) const;
  // The counts that are in `read`.
  Histogram ToHistogram() const {
    const auto* const row = read.host<uint64_t>();
    return cuda::ToHistogram(row, bin_count, row + bin_count);
  }

  SampleType type = SampleType::kF32;
  uint32_t bin_count = 0;
  cuda::DevicePlan plan = {};  // of even bins these only
  cuda::EvenEdges edges = {};
  bool even_is_prepared = false;  // the kernel for even bins
  cuda::DeviceTraits device = {};
  cuda::DeviceBuffer counts = {}, workspace = {};
  cuda::DeviceBuffer words = {};  // of FindExtent, and behind them the tickets of HandOver
  cuda::PinnedBuffer read = {};   // a row that was copied
  cuda::PinnedBuffer flag = {};   // says that the row or the extent of call `calls` is there
  cuda::PinnedBuffer extent = {};
  uint32_t calls = 0;
  bool is_clear = true;
};

absl::Status DeviceCounter::Impl::Allocate() {
  HISTOGRAM_RETURN_IF_ERROR(cuda::ReadDeviceTraits(cuda::kCurrentDevice, device));
  HISTOGRAM_ASSIGN_OR_RETURN(counts, cuda::DeviceBuffer::Make(bytes()));
  HISTOGRAM_ASSIGN_OR_RETURN(words,
                             cuda::DeviceBuffer::Make((cuda::kExtentWords + 1) * sizeof(uint64_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(read, cuda::PinnedBuffer::Make(bytes()));
  HISTOGRAM_ASSIGN_OR_RETURN(flag, cuda::PinnedBuffer::Make(sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(extent, cuda::PinnedBuffer::Make(sizeof(cuda::Extent)));
  return absl::OkStatus();
}

absl::Status DeviceCounter::Impl::Fill(const Plan& of, uint64_t samples_at_once) {
  HISTOGRAM_RETURN_IF_ERROR(Allocate());
  HISTOGRAM_ASSIGN_OR_RETURN(plan, cuda::DevicePlan::Make(of));
  HISTOGRAM_RETURN_IF_ERROR(cuda::PrepareTable(type, plan.bins, device));
  const uint64_t workspace_bytes = cuda::WorkspaceBytes(bin_count, samples_at_once, device);
  HISTOGRAM_ASSIGN_OR_RETURN(workspace, cuda::DeviceBuffer::Make(workspace_bytes));
  return absl::OkStatus();
}

cuda::TypedLaunch DeviceCounter::Impl::Launch(const void* samples, uint64_t sample_count,
                                              cudaStream_t stream) const {
  cuda::TypedLaunch launch;
  launch.type = type;
  launch.samples = samples;
  launch.count = sample_count;
  launch.counts = counts.get<unsigned long long>();
  launch.workspace = workspace.get();
  launch.workspace_bytes = workspace.bytes();
  launch.device = &device;
  launch.stream = stream;
  return launch;
}

Result<DeviceCounter> DeviceCounter::Make(const Plan& plan, uint64_t samples_at_once) {
  auto impl = std::make_unique<Impl>(Impl{.type = plan.type(), .bin_count = plan.bin_count()});
  HISTOGRAM_RETURN_ERROR_OF(impl->Fill(plan, samples_at_once));
  return DeviceCounter(std::move(impl));
}

Result<DeviceCounter> DeviceCounter::MakeEven(SampleType type, uint32_t bins) {
  auto impl = std::make_unique<Impl>(Impl{.type = type, .bin_count = bins});
  HISTOGRAM_RETURN_ERROR_OF(impl->Allocate());
  DeviceCounter made(std::move(impl));
  HISTOGRAM_RETURN_ERROR_OF(made.SetRange({.lower = 0, .upper = 1}));
  return made;
}

std::optional<Error> DeviceCounter::SetRange(const DeviceRange& range) {
  Impl& impl = *impl_;
  HISTOGRAM_RETURN_ERROR_OF(cuda::CheckEvenBins(impl.type, impl.bin_count, impl.device));
  const Result<cuda::EvenEdges> edges = cuda::EdgesOf(range, impl.bin_count);
  if (!edges.ok()) return edges.error();
  impl.edges = *edges;
  impl.plan.bins = cuda::MakeEvenBins(impl.type, impl.edges);
  if (impl.even_is_prepared) return std::nullopt;
  const absl::Status status = cuda::PrepareTable(impl.type, impl.plan.bins, impl.device);
  impl.even_is_prepared = status.ok();
  return ErrorOf(status);
}

std::vector<double> DeviceCounter::Edges() const {
  const internal::FloatMode mode;
  std::vector<double> edges(size_t{impl_->edges.bins} + 1);
  for (uint32_t i = 0; i < edges.size(); ++i) edges[i] = impl_->edges.at(i);
  return edges;
}

Result<DeviceExtent> DeviceCounter::FindExtent(const void* samples, uint64_t count,
                                               CUstream_st* stream) {
  Impl& impl = *impl_;
  HISTOGRAM_RETURN_ERROR_OF(CheckAddress(samples, impl.type));
  cuda::ExtentLaunch launch;
  launch.type = impl.type;
  launch.samples = samples;
  launch.count = count;
  launch.words = impl.words.get<uint64_t>();
  launch.extent = impl.extent.device<cuda::Extent>();
  launch.flag = impl.flag.device<uint32_t>();
  launch.value = ++impl.calls;
  launch.device = &impl.device;
  launch.stream = stream;
  HISTOGRAM_RETURN_ERROR_OF(cuda::EnqueueExtent(launch));
  HISTOGRAM_RETURN_ERROR_OF(WaitFor(impl.flag.host<uint32_t>(), launch.value, stream));
  const auto* const extent = impl.extent.host<cuda::Extent>();
  return DeviceExtent{.least = cuda::ValueOfExtentKey(extent->least, impl.type),
                      .greatest = cuda::ValueOfExtentKey(extent->greatest, impl.type)};
}

std::optional<Error> DeviceCounter::Clear(CUstream_st* stream) {
  impl_->is_clear = true;
  return ErrorOf(cuda::ToStatus(cudaMemsetAsync(impl_->counts.get(), 0, impl_->bytes(), stream),
                                "cudaMemsetAsync"));
}

std::optional<Error> DeviceCounter::Add(const void* samples, uint64_t count, CUstream_st* stream) {
  HISTOGRAM_RETURN_ERROR_OF(CheckAddress(samples, impl_->type));
  impl_->is_clear = false;
  return ErrorOf(cuda::EnqueueTyped(impl_->Launch(samples, count, stream), impl_->plan.bins));
}

Result<Histogram> DeviceCounter::Read(CUstream_st* stream) {
  HISTOGRAM_RETURN_ERROR_OF(
      cuda::ReadBack(impl_->counts.get(), impl_->read.host(), impl_->bytes(), stream));
  return impl_->ToHistogram();
}

Result<Histogram> DeviceCounter::Count(const void* samples, uint64_t count, CUstream_st* stream) {
  if (!impl_->is_clear) HISTOGRAM_RETURN_ERROR_OF(Clear(stream));
  // Without samples, or with more samples or bins than one launch counts and hands over.
  if (count == 0 || count >> 31 != 0 || impl_->bin_count > kOneLaunchBinsMax ||
      cuda::TableParts(impl_->bin_count, impl_->device) > 1) {
    HISTOGRAM_RETURN_ERROR_OF(Add(samples, count, stream));
    Result<Histogram> histogram = Read(stream);
    HISTOGRAM_RETURN_ERROR_OF(Clear(stream));
    return histogram;
  }
  HISTOGRAM_RETURN_ERROR_OF(CheckAddress(samples, impl_->type));
  cuda::TypedLaunch launch = impl_->Launch(samples, count, stream);
  launch.hand_over.row = impl_->read.device<uint64_t>();
  launch.hand_over.flag = impl_->flag.device<uint32_t>();
  launch.hand_over.tickets = impl_->words.get<uint32_t>(cuda::kExtentWords * sizeof(uint64_t));
  launch.hand_over.value = ++impl_->calls;
  HISTOGRAM_RETURN_ERROR_OF(cuda::EnqueueTyped(launch, impl_->plan.bins));
  HISTOGRAM_RETURN_ERROR_OF(WaitFor(impl_->flag.host<uint32_t>(), launch.hand_over.value, stream));
  return impl_->ToHistogram();
}

const uint64_t* DeviceCounter::device_counts() const { return impl_->counts.get<uint64_t>(); }

}  // namespace histogram
