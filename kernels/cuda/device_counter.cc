#include <histogram/cuda.h>

#include <numeric>
#include <string>
#include <utility>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/resources.h"
#include "kernels/cuda/typed_plan.h"

namespace histogram {
namespace {

// Above it the copy engine is as quick.
constexpr uint64_t kKernelCopyBytesMax = uint64_t{256} << 10;

Error ToError(const absl::Status& status) {
  return {.code = ErrorCode::kDevice, .message = std::string(status.message())};
}

std::optional<Error> ToOptional(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  return ToError(status);
}

}  // namespace

struct DeviceCounter::Impl {
  explicit Impl(cuda::DevicePlan device_plan) : plan(std::move(device_plan)) {}

  uint64_t bytes() const {
    return uint64_t{internal::SlotCount(plan.plan().bin_count())} * sizeof(uint64_t);
  }

  cuda::DevicePlan plan;
  cuda::DeviceTraits device;
  cuda::DeviceBuffer counts;
  cuda::PinnedBuffer read;  // where Read copies to
};

DeviceCounter::DeviceCounter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceCounter::DeviceCounter(DeviceCounter&& other) noexcept = default;
DeviceCounter& DeviceCounter::operator=(DeviceCounter&& other) noexcept = default;
DeviceCounter::~DeviceCounter() = default;

Result<DeviceCounter> DeviceCounter::Make(const Plan& plan) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    return ToError(cuda::ToStatus(error, "cudaGetDevice"));
  }
  absl::StatusOr<cuda::DevicePlan> device_plan = cuda::DevicePlan::Make(plan);
  if (!device_plan.ok()) return ToError(device_plan.status());
  auto impl = std::make_unique<Impl>(*std::move(device_plan));
  if (absl::Status status = cuda::ReadDeviceTraits(device, impl->device); !status.ok()) {
    return ToError(status);
  }
  absl::StatusOr<cuda::DeviceBuffer> counts = cuda::DeviceBuffer::Make(impl->bytes());
  if (!counts.ok()) return ToError(counts.status());
  impl->counts = *std::move(counts);
  absl::StatusOr<cuda::PinnedBuffer> read = cuda::PinnedBuffer::Make(impl->bytes());
  if (!read.ok()) return ToError(read.status());
  impl->read = *std::move(read);
  return DeviceCounter(std::move(impl));
}

std::optional<Error> DeviceCounter::Clear(CUstream_st* stream) {
  return ToOptional(cuda::ToStatus(cudaMemsetAsync(impl_->counts.get(), 0, impl_->bytes(), stream),
                                   "cudaMemsetAsync"));
}

std::optional<Error> DeviceCounter::Add(const void* samples, uint64_t count, CUstream_st* stream) {
  const SampleType type = impl_->plan.plan().type();
  const size_t size = SampleBytes(type);
  if (reinterpret_cast<uintptr_t>(samples) % size != 0) {
    return Error{.code = ErrorCode::kDevice,
                 .message = "samples lie at an address that is no multiple of " +
                            std::to_string(size) + ", the size of " + std::string(NameOf(type)),
                 .field = "samples"};
  }
  cuda::TypedLaunch launch;
  launch.type = type;
  launch.samples = samples;
  launch.count = count;
  launch.counts = impl_->counts.get<unsigned long long>();
  launch.device = &impl_->device;
  launch.stream = stream;
  return ToOptional(impl_->plan.Enqueue(launch));
}

Result<Histogram> DeviceCounter::Read(CUstream_st* stream) {
  auto* const row = impl_->read.host<uint64_t>();
  absl::Status status =
      impl_->bytes() <= kKernelCopyBytesMax
          ? cuda::EnqueueCopy(impl_->counts.get<unsigned long long>(),
                              internal::SlotCount(impl_->plan.plan().bin_count()),
                              impl_->read.device<uint64_t>(), stream)
          : cuda::ToStatus(cudaMemcpyAsync(row, impl_->counts.get(), impl_->bytes(),
                                           cudaMemcpyDeviceToHost, stream),
                           "reading the counts");
  if (status.ok()) status = cuda::ToStatus(cudaStreamSynchronize(stream), "reading the counts");
  if (!status.ok()) return ToError(status);
  const uint32_t bins = impl_->plan.plan().bin_count();
  Histogram histogram;
  histogram.counts.assign(row, row + bins);
  histogram.below = row[bins + internal::kBelowSlot];
  histogram.above = row[bins + internal::kAboveSlot];
  histogram.nan = row[bins + internal::kNanSlot];
  histogram.samples = std::accumulate(row, row + internal::SlotCount(bins), uint64_t{0});
  return histogram;
}

const uint64_t* DeviceCounter::device_counts() const { return impl_->counts.get<uint64_t>(); }

}  // namespace histogram
