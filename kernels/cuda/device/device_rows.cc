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
#include "kernels/parallel.h"
#include "kernels/rows.h"

namespace histogram {
namespace {

// Counts are copied to the host in pieces of this size, through pinned memory that is kept. In
// pieces of 1 or 2 MiB 4,096 rows of 256 bins take 1.09 ms instead of 0.72 to 0.83 (H200, ec86c61).
constexpr uint64_t kReadBytes = uint64_t{4} << 20;
// Of them a thread takes no fewer. Starting a thread takes about 30 us: with halves of this and
// twice the threads the same rows take 0.86 to 0.97 ms.
constexpr uint64_t kThreadBytes = uint64_t{1} << 20;

Error BadRows(const std::string& field, const std::string& message, uint64_t limit = 0) {
  return {.code = ErrorCode::kBadRows, .message = message, .field = field, .limit = limit};
}

RowCut ToRowCut(const DeviceRowCut& cut) {
  const RowCut::Kind kind = !cut.lengths.empty() ? RowCut::Kind::kLengths
                            : cut.window > 0     ? RowCut::Kind::kWindows
                                                 : RowCut::Kind::kOne;
  return {cut.channels, kind, cut.window, cut.step, cut.lengths};
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

}  // namespace

struct DeviceRows::Impl {
  // Checks the cut, and allocates.
  std::optional<Error> Fill(const DeviceRowCut& of);
  std::optional<Error> SetRange(const DeviceRange& range);
  Result<cuda::RowsLaunch> Launch(const void* samples, uint64_t count, CUstream_st* stream) const;
  absl::Status Allocate(uint64_t rows_max);

  SampleType type = SampleType::kF32;
  uint64_t bins = 0;
  bool even = false, own_ranges = false;
  cuda::DevicePlan plan = {};  // of even rows its bins only
  RowCut cut = {};
  Answer answer = Answer::kCounts;
  uint64_t samples_max = 0;
  cuda::DeviceTraits device = {};
  uint64_t rows = 0;  // of the last count
  cuda::DeviceBuffer counts = {}, outside = {}, entropy = {}, wide = {};
  cuda::DeviceBuffer ends = {}, extents = {};  // of even rows
  cuda::PinnedBuffer read = {};                // counts that were copied
  cuda::DeviceBuffer begins = {};              // of stretches of given lengths
};

absl::Status DeviceRows::Impl::Allocate(uint64_t rows_max) {
  using cuda::DeviceBuffer;
  rows_max = std::max<uint64_t>(rows_max, 1);
  const uint64_t entropy_bytes = answer == Answer::kEntropy ? rows_max * sizeof(float) : 0;
  const uint64_t slots = bins + internal::kOutsideSlots;
  HISTOGRAM_ASSIGN_OR_RETURN(counts, DeviceBuffer::Make(rows_max * bins * sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(
      outside, DeviceBuffer::Make(rows_max * internal::kOutsideSlots * sizeof(uint32_t)));
  HISTOGRAM_ASSIGN_OR_RETURN(entropy, DeviceBuffer::Make(entropy_bytes));
  if (answer == Answer::kWideCounts) {
    HISTOGRAM_ASSIGN_OR_RETURN(wide, DeviceBuffer::Make(rows_max * slots * sizeof(uint64_t)));
  }
  if (even) {
    HISTOGRAM_ASSIGN_OR_RETURN(ends, DeviceBuffer::Make(rows_max * sizeof(cuda::RowEnds)));
    HISTOGRAM_ASSIGN_OR_RETURN(extents, DeviceBuffer::Make(rows_max * 2 * sizeof(uint64_t)));
    return absl::OkStatus();
  }
  if (cut.kind == RowCut::Kind::kLengths) {
    std::vector<uint64_t> at = {0};
    for (const uint64_t length : cut.lengths) at.push_back(at.back() + length);
    HISTOGRAM_ASSIGN_OR_RETURN(begins,
                               DeviceBuffer::Holding(at.data(), at.size() * sizeof(uint64_t)));
  }
  return absl::OkStatus();
}

Result<cuda::RowsLaunch> DeviceRows::Impl::Launch(const void* samples, uint64_t count,
                                                  CUstream_st* stream) const {
  const Result<uint64_t> stretches = cut.Stretches(count);
  if (!stretches.ok()) return stretches.error();
  cuda::RowsLaunch launch;
  launch.type = type;
  launch.samples = samples;
  launch.pixels = count / cut.channels;
  launch.channels = cut.channels;
  launch.stretches = *stretches;
  launch.window = cut.kind == RowCut::Kind::kWindows ? cut.window : launch.pixels;
  launch.step = cut.step == 0 ? launch.window : cut.step;
  launch.begins = begins.get<uint64_t>();
  launch.longest = cut.Longest(count);
  launch.own_ranges = own_ranges;
  launch.ends = ends.get<cuda::RowEnds>();
  launch.extents = extents.get<uint64_t>();
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

std::optional<Error> DeviceRows::Impl::Fill(const DeviceRowCut& of) {
  HISTOGRAM_RETURN_ERROR_OF(CheckCut(of));
  cut = ToRowCut(of);
  HISTOGRAM_RETURN_ERROR_OF(cuda::ReadDeviceTraits(cuda::kCurrentDevice, device));
  if (even) {
    if (cut.channels != 1 || cut.kind == RowCut::Kind::kLengths) {
      return BadRows("channels", "channels or lengths: even rows without a plan have neither");
    }
    HISTOGRAM_RETURN_ERROR_OF(cuda::CheckEvenBins(type, static_cast<uint32_t>(bins), device));
    HISTOGRAM_RETURN_ERROR_OF(SetRange({.lower = 0, .upper = 1}));
  } else if (cuda::TableParts(static_cast<uint32_t>(bins), device) > 1) {
    const uint32_t limit = cuda::RowBinsMax(device);
    return BadRows("plan", absl::StrCat("the plan has ", bins, " bins: rows have at most ", limit),
                   limit);
  }
  const Result<cuda::RowsLaunch> largest = Launch(nullptr, samples_max, nullptr);
  if (!largest.ok()) return largest.error();
  return cuda::ErrorOf(Allocate(largest->stretches * largest->channels));
}

std::optional<Error> DeviceRows::Impl::SetRange(const DeviceRange& range) {
  const Result<cuda::EvenEdges> edges = cuda::EdgesOf(range, static_cast<uint32_t>(bins));
  if (!edges.ok()) return edges.error();
  plan.bins = cuda::MakeEvenBins(type, *edges);
  return std::nullopt;
}

Result<DeviceRows> DeviceRows::Make(const Plan& plan, const DeviceRowCut& cut, uint64_t samples_max,
                                    Answer answer) {
  absl::StatusOr<cuda::DevicePlan> device_plan = cuda::DevicePlan::Make(plan);
  HISTOGRAM_RETURN_ERROR_OF(device_plan);
  auto impl = std::make_unique<Impl>(Impl{.type = plan.type(),
                                          .bins = plan.bin_count(),
                                          .plan = *std::move(device_plan),
                                          .answer = answer,
                                          .samples_max = samples_max});
  HISTOGRAM_RETURN_ERROR_OF(impl->Fill(cut));
  return DeviceRows(std::move(impl));
}

Result<DeviceRows> DeviceRows::MakeEven(SampleType type, uint32_t bins, const DeviceRowCut& cut,
                                        uint64_t samples_max, Answer answer) {
  auto impl = std::make_unique<Impl>(
      Impl{.type = type, .bins = bins, .even = true, .answer = answer, .samples_max = samples_max});
  HISTOGRAM_RETURN_ERROR_OF(impl->Fill(cut));
  return DeviceRows(std::move(impl));
}

std::optional<Error> DeviceRows::SetRange(const DeviceRange& range) {
  impl_->own_ranges = false;
  return impl_->SetRange(range);
}

void DeviceRows::SetOwnRanges() {
  impl_->own_ranges = true;
  // Each row takes its arithmetic from these.
  const bool floats = std::holds_alternative<cuda::TypedBins<float>>(impl_->plan.bins);
  static_cast<void>(impl_->SetRange(
      {.lower = 0,
       .upper = 1,
       .edges = floats ? DeviceRange::Edges::kFloat : DeviceRange::Edges::kDouble}));
}

std::optional<Error> DeviceRows::Count(const void* samples, uint64_t count, CUstream_st* stream) {
  if (count > impl_->samples_max) {
    return BadRows("count",
                   absl::StrCat("count is ", count, ": must be <= ", impl_->samples_max,
                                ", for which this was made"),
                   impl_->samples_max);
  }
  HISTOGRAM_RETURN_ERROR_OF(cuda::CheckAddress(samples, impl_->type));
  const Result<cuda::RowsLaunch> launch = impl_->Launch(samples, count, stream);
  if (!launch.ok()) return launch.error();
  impl_->rows = launch->stretches * launch->channels;
  HISTOGRAM_RETURN_ERROR_OF(cuda::EnqueueQuickestRows(
      *launch, impl_->plan.bins,
      impl_->answer == Answer::kEntropy ? impl_->entropy.get<float>() : nullptr));
  if (impl_->answer != Answer::kWideCounts) return std::nullopt;
  return cuda::ErrorOf(cuda::EnqueueWiden(launch->counts, launch->outside, impl_->rows,
                                          static_cast<uint32_t>(impl_->bins),
                                          impl_->wide.get<uint64_t>(), stream));
}

uint64_t DeviceRows::row_count() const { return impl_->rows; }

Result<std::vector<Histogram>> DeviceRows::Read(CUstream_st* stream) {
  std::vector<Histogram> rows;
  rows.reserve(impl_->rows);
  HISTOGRAM_RETURN_ERROR_OF(ForEachRow(
      stream, [&](uint64_t, std::span<const uint32_t> counts, std::span<const uint32_t> outside) {
        rows.push_back(cuda::ToHistogram(counts.data(), counts.size(), outside.data()));
      }));
  return rows;
}

std::optional<Error> DeviceRows::ForEachRow(CUstream_st* stream, const VisitRow& visit,
                                            uint32_t threads) {
  Impl& impl = *impl_;
  if (impl.rows == 0) return std::nullopt;
  std::vector<uint32_t> outside(impl.rows * internal::kOutsideSlots);
  HISTOGRAM_RETURN_ERROR_OF(cuda::ReadBack(impl.outside.get(), outside.data(),
                                           outside.size() * sizeof(uint32_t), stream));
  const uint64_t row_bytes = impl.bins * sizeof(uint32_t);
  const uint64_t at_once = std::clamp<uint64_t>(kReadBytes / row_bytes, 1, impl.rows);
  if (impl.read.bytes() < at_once * row_bytes) {
    absl::StatusOr<cuda::PinnedBuffer> made = cuda::PinnedBuffer::Make(at_once * row_bytes);
    HISTOGRAM_RETURN_ERROR_OF(made);
    impl.read = *std::move(made);
  }
  for (uint64_t done = 0; done < impl.rows; done += at_once) {
    const uint64_t some = std::min(at_once, impl.rows - done);
    HISTOGRAM_RETURN_ERROR_OF(cuda::ReadBack(impl.counts.get(done * row_bytes), impl.read.host(),
                                             some * row_bytes, stream));
    const uint64_t parts = std::clamp<uint64_t>(some * row_bytes / kThreadBytes, 1, threads);
    internal::InParallel(parts, [&](size_t part) {
      for (uint64_t r = some * part / parts; r < some * (part + 1) / parts; ++r) {
        visit(done + r, {impl.read.host<uint32_t>(r * row_bytes), impl.bins},
              {outside.data() + (done + r) * internal::kOutsideSlots, internal::kOutsideSlots});
      }
    });
  }
  return std::nullopt;
}

Result<std::vector<DeviceRange>> DeviceRows::ReadRanges(CUstream_st* stream) {
  std::vector<cuda::RowEnds> ends(impl_->rows);
  HISTOGRAM_RETURN_ERROR_OF(
      cuda::ReadBack(impl_->ends.get(), ends.data(), ends.size() * sizeof(ends[0]), stream));
  const auto edges = std::visit(
      [](const auto& bins) { return static_cast<DeviceRange::Edges>(bins.even.arithmetic); },
      impl_->plan.bins);
  std::vector<DeviceRange> ranges;
  ranges.reserve(ends.size());
  for (const cuda::RowEnds& row : ends) ranges.push_back({row.lower, row.upper, edges});
  return ranges;
}

Result<std::vector<float>> DeviceRows::ReadEntropy(CUstream_st* stream) {
  std::vector<float> values(impl_->rows);
  HISTOGRAM_RETURN_ERROR_OF(
      cuda::ReadBack(impl_->entropy.get(), values.data(), values.size() * sizeof(float), stream));
  return values;
}

const uint32_t* DeviceRows::device_counts() const { return impl_->counts.get<uint32_t>(); }
const uint32_t* DeviceRows::device_outside() const { return impl_->outside.get<uint32_t>(); }
const uint64_t* DeviceRows::device_rows() const { return impl_->wide.get<uint64_t>(); }
const float* DeviceRows::device_entropy() const { return impl_->entropy.get<float>(); }

}  // namespace histogram
