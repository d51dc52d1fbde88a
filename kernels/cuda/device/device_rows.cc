#include <histogram/cuda.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/device/device_call.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/rows.h"

namespace histogram {
namespace {

using cuda::kByteChannelsMax;

Error BadRows(const std::string& field, const std::string& message, uint64_t limit = 0) {
  return {.code = ErrorCode::kBadRows, .message = message, .field = field, .limit = limit};
}

RowCut ToRowCut(const DeviceRowCut& cut) {
  RowCut rows;
  rows.channels = cut.channels;
  rows.kind = !cut.lengths.empty() ? RowCut::Kind::kLengths
              : cut.window > 0     ? RowCut::Kind::kWindows
                                   : RowCut::Kind::kOne;
  rows.window = cut.window;
  rows.step = cut.step;
  rows.lengths = cut.lengths;
  return rows;
}

std::optional<Error> CheckCut(const DeviceRowCut& cut) {
  if (cut.channels == 0) return BadRows("channels", "channels is 0: must be >= 1");
  if (cut.window == 0 && cut.step > 0) {
    return BadRows("step", absl::StrCat("step is ", cut.step, " and window 0: set window, too"));
  }
  if (cut.window > 0 && !cut.lengths.empty()) {
    return BadRows("lengths", "lengths and window are both set: set one of them");
  }
  return std::nullopt;
}

// Waits for the stream.
template <typename T>
absl::Status ReadBack(const cuda::DeviceBuffer& from, std::vector<T>& to, CUstream_st* stream) {
  HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to.data(), from.get(), to.size() * sizeof(T),
                                                 cudaMemcpyDeviceToHost, stream));
  return cuda::ToStatus(cudaStreamSynchronize(stream), "reading the rows");
}

}  // namespace

struct DeviceRows::Impl {
  uint64_t bins() const { return plan.plan.bin_count(); }
  Result<cuda::RowsLaunch> Launch(const void* samples, uint64_t count, CUstream_st* stream) const;
  absl::Status Allocate(uint64_t rows_max);
  absl::Status Enqueue(const cuda::RowsLaunch& launch);

  cuda::DevicePlan plan;
  RowCut cut;
  Answer answer = Answer::kCounts;
  uint64_t samples_max = 0;
  cuda::DeviceTraits device = {};
  bool bin_for_each_byte = false;
  uint64_t rows = 0;  // of the last count
  cuda::DeviceBuffer counts = {}, outside = {}, entropy = {};
  cuda::DeviceBuffer begins = {};   // of stretches of given lengths
  cuda::DeviceBuffer slot_of = {};  // of each pattern of 8 bits
};

absl::Status DeviceRows::Impl::Allocate(uint64_t rows_max) {
  using cuda::DeviceBuffer;
  rows_max = std::max<uint64_t>(rows_max, 1);
  const uint64_t entropy_bytes = answer == Answer::kEntropy ? rows_max * sizeof(float) : 0;
  HISTOGRAM_ASSIGN_OR_RETURN(counts, DeviceBuffer::Make(rows_max * bins() * sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(
      outside, DeviceBuffer::Make(rows_max * internal::kOutsideSlots * sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(entropy, DeviceBuffer::Make(entropy_bytes));
  if (cut.kind == RowCut::Kind::kLengths) {
    std::vector<uint64_t> at = {0};
    for (const uint64_t length : cut.lengths) at.push_back(at.back() + length);
    HISTOGRAM_ASSIGN_OR_RETURN(begins,
                               DeviceBuffer::Holding(at.data(), at.size() * sizeof(uint64_t)));
  }
  const std::vector<uint32_t>& patterns = plan.plan.data().slot_of_pattern;
  if (patterns.size() == kByteValues) {
    HISTOGRAM_ASSIGN_OR_RETURN(
        slot_of, DeviceBuffer::Holding(patterns.data(), kByteValues * sizeof(uint32_t)));
  }
  return absl::OkStatus();
}

Result<cuda::RowsLaunch> DeviceRows::Impl::Launch(const void* samples, uint64_t count,
                                                  CUstream_st* stream) const {
  const Result<uint64_t> stretches = cut.Stretches(count);
  if (!stretches.ok()) return stretches.error();
  cuda::RowsLaunch launch;
  launch.type = plan.plan.type();
  launch.samples = samples;
  launch.pixels = count / cut.channels;
  launch.channels = cut.channels;
  launch.stretches = *stretches;
  launch.window = cut.kind == RowCut::Kind::kWindows ? cut.window : launch.pixels;
  launch.step = cut.step == 0 ? launch.window : cut.step;
  launch.begins = begins.get<uint64_t>();
  launch.longest = cut.Longest(count);
  launch.counts = counts.get<uint32_t>();
  launch.outside = outside.get<uint32_t>();
  launch.device = &device;
  launch.stream = stream;
  constexpr uint64_t kLongest = std::numeric_limits<uint32_t>::max();
  if (launch.longest > kLongest) {
    return BadRows("count",
                   absl::StrCat("a row has ", launch.longest, " samples: must be <= ", kLongest),
                   kLongest);
  }
  return launch;
}

absl::Status DeviceRows::Impl::Enqueue(const cuda::RowsLaunch& launch) {
  auto* const entropies = entropy.get<float>();
  const bool wants_entropy = answer == Answer::kEntropy;
  cuda::RowsLaunch rest = launch;  // what the kernel for any rows counts
  if (bin_for_each_byte && cut.kind == RowCut::Kind::kWindows && cuda::ByteWindowsTake(launch)) {
    cuda::RowsLaunch whole = launch;
    // Only the last stretch can be shorter.
    const bool shorter = (launch.stretches - 1) * launch.step + launch.window > launch.pixels;
    if (launch.stretches > 0 && shorter) --whole.stretches;
    HISTOGRAM_RETURN_IF_ERROR(cuda::EnqueueByteWindows(whole, wants_entropy ? entropies : nullptr));
    if (!wants_entropy) {
      HISTOGRAM_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(
          launch.outside, 0, whole.stretches * internal::kOutsideSlots * sizeof(uint32_t),
          launch.stream));
    }
    const uint64_t done = whole.stretches * launch.step;
    rest.samples = static_cast<const uint8_t*>(launch.samples) + done;
    rest.pixels = launch.pixels - std::min(done, launch.pixels);
    rest.stretches -= whole.stretches;
    rest.counts += whole.stretches * bins();
    rest.outside += whole.stretches * internal::kOutsideSlots;
    if (rest.stretches == 0) return absl::OkStatus();
  }
  const bool interleaved = SampleBytes(launch.type) == 1 && cut.kind == RowCut::Kind::kOne &&
                           launch.channels >= 2 && launch.channels <= kByteChannelsMax &&
                           cuda::HasByteTables(device);
  HISTOGRAM_RETURN_IF_ERROR(
      interleaved
          ? cuda::EnqueueByteChannels(rest, static_cast<uint32_t>(bins()), slot_of.get<uint32_t>())
          : cuda::EnqueueRows(rest, plan.bins));
  if (!wants_entropy) return absl::OkStatus();
  return cuda::EnqueueEntropy(
      rest.counts, rest.stretches * rest.channels, static_cast<uint32_t>(bins()),
      entropies + (launch.stretches - rest.stretches) * rest.channels, launch.stream);
}

Result<DeviceRows> DeviceRows::Make(const Plan& plan, const DeviceRowCut& cut, uint64_t samples_max,
                                    Answer answer) {
  if (std::optional<Error> error = CheckCut(cut)) return *std::move(error);
  absl::StatusOr<cuda::DevicePlan> device_plan = cuda::DevicePlan::Make(plan);
  if (!device_plan.ok()) return cuda::ToError(device_plan.status());
  auto impl = std::make_unique<Impl>(Impl{.plan = *std::move(device_plan),
                                          .cut = ToRowCut(cut),
                                          .answer = answer,
                                          .samples_max = samples_max});
  absl::Status status = cuda::ReadDeviceTraits(cuda::kCurrentDevice, impl->device);
  if (!status.ok()) return cuda::ToError(status);
  const uint32_t bins = plan.bin_count();
  if (cuda::TableParts(bins, impl->device) > 1) {
    const uint64_t limit = impl->device.shared_bytes_max / sizeof(uint32_t) - 64;
    return BadRows("plan", absl::StrCat("the plan has ", bins, " bins: rows have at most ", limit),
                   limit);
  }
  const std::vector<uint32_t>& patterns = impl->plan.plan.data().slot_of_pattern;
  impl->bin_for_each_byte = bins == kByteValues && patterns.size() == kByteValues;
  for (uint32_t v = 0; impl->bin_for_each_byte && v < kByteValues; ++v) {
    impl->bin_for_each_byte = patterns[v] == v;
  }
  const Result<cuda::RowsLaunch> largest = impl->Launch(nullptr, samples_max, nullptr);
  if (!largest.ok()) return largest.error();
  status = impl->Allocate(largest->stretches * largest->channels);
  if (!status.ok()) return cuda::ToError(status);
  return DeviceRows(std::move(impl));
}

std::optional<Error> DeviceRows::Count(const void* samples, uint64_t count, CUstream_st* stream) {
  if (count > impl_->samples_max) {
    return BadRows("count",
                   absl::StrCat("count is ", count, ": must be <= ", impl_->samples_max,
                                ", for which this was made"),
                   impl_->samples_max);
  }
  if (std::optional<Error> error = cuda::CheckAddress(samples, impl_->plan.plan.type())) {
    return error;
  }
  const Result<cuda::RowsLaunch> launch = impl_->Launch(samples, count, stream);
  if (!launch.ok()) return launch.error();
  impl_->rows = launch->stretches * launch->channels;
  return cuda::ToOptional(impl_->Enqueue(*launch));
}

uint64_t DeviceRows::row_count() const { return impl_->rows; }

Result<std::vector<Histogram>> DeviceRows::Read(CUstream_st* stream) {
  const uint64_t bins = impl_->bins();
  std::vector<uint32_t> counts(impl_->rows * bins);
  std::vector<uint32_t> outside(impl_->rows * internal::kOutsideSlots);
  absl::Status status = ReadBack(impl_->counts, counts, stream);
  if (status.ok()) status = ReadBack(impl_->outside, outside, stream);
  if (!status.ok()) return cuda::ToError(status);
  std::vector<Histogram> rows;
  rows.reserve(impl_->rows);
  for (uint64_t r = 0; r < impl_->rows; ++r) {
    rows.push_back(cuda::ToHistogram(counts.data() + r * bins, bins,
                                     outside.data() + r * internal::kOutsideSlots));
  }
  return rows;
}

Result<std::vector<float>> DeviceRows::ReadEntropy(CUstream_st* stream) {
  std::vector<float> values(impl_->rows);
  const absl::Status status = ReadBack(impl_->entropy, values, stream);
  if (!status.ok()) return cuda::ToError(status);
  return values;
}

const uint32_t* DeviceRows::device_counts() const { return impl_->counts.get<uint32_t>(); }
const uint32_t* DeviceRows::device_outside() const { return impl_->outside.get<uint32_t>(); }
const float* DeviceRows::device_entropy() const { return impl_->entropy.get<float>(); }

}  // namespace histogram
