#include <histogram/cuda.h>

#include <atomic>
#include <utility>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/device/device_call.h"
#include "kernels/cuda/plan/typed_plan.h"

namespace histogram {
namespace {

using cuda::CheckAddress;
using cuda::ToError;
using cuda::ToOptional;

// Above it the copy engine is as quick.
constexpr uint64_t kKernelCopyBytesMax = uint64_t{256} << 10;
// Above them, counting takes longer than what one launch saves.
constexpr uint64_t kOneLaunchBytesMax = uint64_t{16} << 20;
constexpr uint32_t kOneLaunchBinsMax = 16384;
// How often a flag is looked at before the stream is asked.
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
  static absl::StatusOr<std::unique_ptr<Impl>> Make(const Plan& plan, uint64_t samples_at_once);

  uint32_t slots() const { return internal::SlotCount(plan.plan.bin_count()); }
  uint64_t bytes() const { return uint64_t{slots()} * sizeof(uint64_t); }

  cuda::TypedLaunch Launch(const void* samples, uint64_t sample_count, cudaStream_t stream) const;
  bool CountsInOneLaunch(uint64_t sample_count) const;
  // The counts that are in `read`.
  Histogram ToHistogram() const {
    const auto* const row = read.host<uint64_t>();
    const uint32_t bins = plan.plan.bin_count();
    return cuda::ToHistogram(row, bins, row + bins);
  }

  cuda::DevicePlan plan;
  cuda::DeviceTraits device = {};
  cuda::DeviceBuffer counts = {}, tickets = {}, workspace = {};
  cuda::PinnedBuffer read = {};  // a row that was copied
  cuda::PinnedBuffer flag = {};  // says that the row of call `calls` is there
  uint32_t calls = 0;
  bool is_clear = true;
};

absl::StatusOr<std::unique_ptr<DeviceCounter::Impl>> DeviceCounter::Impl::Make(
    const Plan& plan, uint64_t samples_at_once) {
  absl::StatusOr<cuda::DevicePlan> device_plan = cuda::DevicePlan::Make(plan);
  if (!device_plan.ok()) return device_plan.status();
  auto impl = std::make_unique<Impl>(Impl{.plan = *std::move(device_plan)});
  HISTOGRAM_RETURN_IF_ERROR(cuda::ReadDeviceTraits(cuda::kCurrentDevice, impl->device));
  HISTOGRAM_RETURN_IF_ERROR(cuda::PrepareTable(plan.type(), impl->plan.bins, impl->device));
  const uint64_t workspace_bytes =
      cuda::WorkspaceBytes(plan.bin_count(), samples_at_once, impl->device);
  HISTOGRAM_ASSIGN_OR_RETURN(impl->counts, cuda::DeviceBuffer::Make(impl->bytes()));
  HISTOGRAM_ASSIGN_OR_RETURN(impl->tickets, cuda::DeviceBuffer::Make(sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(impl->workspace, cuda::DeviceBuffer::Make(workspace_bytes));
  HISTOGRAM_ASSIGN_OR_RETURN(impl->read, cuda::PinnedBuffer::Make(impl->bytes()));
  HISTOGRAM_ASSIGN_OR_RETURN(impl->flag, cuda::PinnedBuffer::Make(sizeof(uint32_t)));
  return impl;
}

cuda::TypedLaunch DeviceCounter::Impl::Launch(const void* samples, uint64_t sample_count,
                                              cudaStream_t stream) const {
  cuda::TypedLaunch launch;
  launch.type = plan.plan.type();
  launch.samples = samples;
  launch.count = sample_count;
  launch.counts = counts.get<unsigned long long>();
  launch.workspace = workspace.get();
  launch.workspace_bytes = workspace.bytes();
  launch.device = &device;
  launch.stream = stream;
  return launch;
}

bool DeviceCounter::Impl::CountsInOneLaunch(uint64_t sample_count) const {
  const uint32_t bins = plan.plan.bin_count();
  return sample_count > 0 && bins <= kOneLaunchBinsMax && cuda::TableParts(bins, device) == 1 &&
         sample_count <= kOneLaunchBytesMax / SampleBytes(plan.plan.type());
}

Result<DeviceCounter> DeviceCounter::Make(const Plan& plan, uint64_t samples_at_once) {
  absl::StatusOr<std::unique_ptr<Impl>> impl = Impl::Make(plan, samples_at_once);
  if (!impl.ok()) return ToError(impl.status());
  return DeviceCounter(*std::move(impl));
}

std::optional<Error> DeviceCounter::Clear(CUstream_st* stream) {
  impl_->is_clear = true;
  return ToOptional(cuda::ToStatus(cudaMemsetAsync(impl_->counts.get(), 0, impl_->bytes(), stream),
                                   "cudaMemsetAsync"));
}

std::optional<Error> DeviceCounter::Add(const void* samples, uint64_t count, CUstream_st* stream) {
  if (std::optional<Error> error = CheckAddress(samples, impl_->plan.plan.type())) return error;
  impl_->is_clear = false;
  return ToOptional(cuda::EnqueueTyped(impl_->Launch(samples, count, stream), impl_->plan.bins));
}

Result<Histogram> DeviceCounter::Read(CUstream_st* stream) {
  absl::Status status =
      impl_->bytes() <= kKernelCopyBytesMax
          ? cuda::EnqueueCopy(impl_->counts.get<unsigned long long>(), impl_->slots(),
                              impl_->read.device<uint64_t>(), stream)
          : cuda::ToStatus(cudaMemcpyAsync(impl_->read.host(), impl_->counts.get(), impl_->bytes(),
                                           cudaMemcpyDeviceToHost, stream),
                           "reading the counts");
  if (status.ok()) status = cuda::ToStatus(cudaStreamSynchronize(stream), "reading the counts");
  if (!status.ok()) return ToError(status);
  return impl_->ToHistogram();
}

Result<Histogram> DeviceCounter::Count(const void* samples, uint64_t count, CUstream_st* stream) {
  if (!impl_->is_clear) {
    if (std::optional<Error> error = Clear(stream)) return *std::move(error);
  }
  if (!impl_->CountsInOneLaunch(count)) {
    if (std::optional<Error> error = Add(samples, count, stream)) return *std::move(error);
    Result<Histogram> histogram = Read(stream);
    if (std::optional<Error> error = Clear(stream)) return *std::move(error);
    return histogram;
  }
  if (std::optional<Error> error = CheckAddress(samples, impl_->plan.plan.type()))
    return *std::move(error);
  cuda::TypedLaunch launch = impl_->Launch(samples, count, stream);
  launch.hand_over.row = impl_->read.device<uint64_t>();
  launch.hand_over.flag = impl_->flag.device<uint32_t>();
  launch.hand_over.tickets = impl_->tickets.get<uint32_t>();
  launch.hand_over.value = ++impl_->calls;
  absl::Status status = cuda::EnqueueTyped(launch, impl_->plan.bins);
  if (status.ok()) status = WaitFor(impl_->flag.host<uint32_t>(), launch.hand_over.value, stream);
  if (!status.ok()) return ToError(status);
  return impl_->ToHistogram();
}

const uint64_t* DeviceCounter::device_counts() const { return impl_->counts.get<uint64_t>(); }

}  // namespace histogram
