// How a lane executes phases one after the other; lane_phases.cc has its steps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/typed_rows.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/rows.h"

namespace histogram::cuda {
namespace {

// A device counts bytes by a plan of the 256 values.
const Plan& CountedBy(const Plan& plan) {
  static const Plan& of_values = *new Plan(*Plan::Make(Binning::Identity(), SampleType::kU8));
  return plan.counts_values() ? of_values : plan;
}

class Runner {
 public:
  Runner(std::span<const Fragment> payload, Lane& lane, absl::FunctionRef<absl::Status()> wait)
      : payload_(payload), bytes_(BytesOf(payload)), lane_(lane), wait_(wait) {}

  absl::Status Run(Phases& phases, BatchReport& report) {
    phases_ = &phases;
    lane_.StartPhases();
    while (std::optional<Phase> phase = phases.Next(payload_)) {
      HISTOGRAM_RETURN_IF_ERROR(
          std::visit([this](const auto& its) { return Execute(its); }, *phase));
    }
    report.kernel = kernel_;
    lane_.ReportPhases(report);
    return absl::OkStatus();
  }

 private:
  absl::Status Execute(const ExtentPhase& phase) {
    std::optional<histogram::Extent> extent;
    HISTOGRAM_RETURN_IF_ERROR(FindExtent(phase.type, extent));
    phases_->Found(extent);
    return absl::OkStatus();
  }

  absl::Status Execute(const CountPhase& phase) { return Count(phase.plan, phase.counters); }

  absl::Status FindExtent(SampleType type, std::optional<histogram::Extent>& extent) {
    Extent keys = {.least = UINT64_MAX, .greatest = 0};
    for (uint64_t at = 0; at < bytes_; at += lane_.part_bytes_max()) {
      HISTOGRAM_RETURN_IF_ERROR(Load(at, std::min(bytes_ - at, lane_.part_bytes_max())));
      HISTOGRAM_RETURN_IF_ERROR(Finish(lane_.BeginExtent(type)));
      keys.least = std::min(keys.least, lane_.extent().least);
      keys.greatest = std::max(keys.greatest, lane_.extent().greatest);
    }
    if (bytes_ > 0) extent = ToExtent(keys, type);
    return absl::OkStatus();
  }

  absl::Status Count(const Plan& of, std::span<uint64_t> counters) {
    kernel_ = std::string(kTypedTableName);
    HISTOGRAM_RETURN_IF_ERROR(lane_.UsePlan(CountedBy(of)));
    uint64_t at = 0;
    do {
      const uint64_t part = std::min(bytes_ - at, lane_.part_bytes_max());
      HISTOGRAM_RETURN_IF_ERROR(Load(at, part));
      HISTOGRAM_RETURN_IF_ERROR(Finish(lane_.BeginCount(/*first=*/at == 0)));
      at += part;
    } while (at < bytes_);
    std::copy_n(lane_.counters(), counters.size(), counters.begin());
    return absl::OkStatus();
  }

  absl::Status Execute(const RowsPhase& phase) {
    rows_ = &phase;
    pixel_bytes_ = uint64_t{SampleBytes(phase.type)} * phase.cut->channels;
    if (!phase.plan.has_value()) return CountOverOwnRanges(phase);
    kernel_ = std::string(kTypedRowsName);
    counters_.resize(phase.plan->counter_count());
    const Plan& plan = CountedBy(*phase.plan);
    bins_ = plan.bin_count();
    const Stretches stretches(*phase.cut, bytes_ / SampleBytes(phase.type));
    // Rows of bytes take a slot for each value.
    const bool with_tables =
        SampleBytes(phase.type) == 1 || phase.cut->channels > 1 || !stretches.begins().empty();
    HISTOGRAM_RETURN_IF_ERROR(lane_.UsePlan(plan, with_tables));
    const uint64_t rows_max = lane_.RowsMax(bins_) / phase.cut->channels;
    for (uint64_t s = 0; s < stretches.count();) {
      uint64_t n = 0;
      while (n < rows_max && s + n < stretches.count() &&
             (stretches.end(s + n) - stretches.begin(s)) * pixel_bytes_ <= lane_.part_bytes_max()) {
        ++n;
      }
      HISTOGRAM_RETURN_IF_ERROR(n > 0 ? CountStretches(stretches, s, n) : CountLong(stretches, s));
      s += std::max<uint64_t>(n, 1);
    }
    return absl::OkStatus();
  }

  // Each row is a payload of its own, since its extent decides on its bins.
  absl::Status CountOverOwnRanges(const RowsPhase& phase) {
    kernel_ = std::string(kTypedTableName);
    const uint32_t channels = phase.cut->channels;
    const Stretches stretches(*phase.cut, bytes_ / SampleBytes(phase.type));
    for (uint64_t row = 0; row < stretches.count() * channels; ++row) {
      const std::span<const std::byte> samples = RowOf(stretches, row);
      const Fragment fragment = FragmentOf(samples);
      Runner its({&fragment, 1}, lane_, wait_);
      std::optional<histogram::Extent> extent;
      HISTOGRAM_RETURN_IF_ERROR(its.FindExtent(phase.type, extent));
      const std::optional<Plan> plan = phases_->PlanOver(row, extent, samples);
      if (!plan.has_value()) break;
      counters_.resize(plan->counter_count());
      HISTOGRAM_RETURN_IF_ERROR(its.Count(*plan, counters_));
      phases_->Counted(row, counters_, samples);
    }
    return absl::OkStatus();
  }

  // Stretches that a step counts together.
  absl::Status CountStretches(const Stretches& stretches, uint64_t s, uint64_t n) {
    const uint32_t channels = rows_->cut->channels;
    // Pixels from the first one's first.
    RowsLaunch rows;
    rows.pixels = stretches.end(s + n - 1) - stretches.begin(s);
    rows.channels = channels;
    rows.stretches = n;
    rows.window = stretches.window();
    rows.step = stretches.step();
    rows.longest = std::min(rows.window, rows.pixels);
    std::vector<uint64_t> begins;
    if (!stretches.begins().empty()) {
      rows.longest = 0;
      for (uint64_t i = s; i < s + n; ++i) {
        begins.push_back(stretches.begin(i) - stretches.begin(s));
        rows.longest = std::max(rows.longest, stretches.end(i) - stretches.begin(i));
      }
      begins.push_back(rows.pixels);
    }
    const uint64_t begin = stretches.begin(s) * pixel_bytes_;
    HISTOGRAM_RETURN_IF_ERROR(Load(begin, rows.pixels * pixel_bytes_));
    HISTOGRAM_RETURN_IF_ERROR(Finish(lane_.BeginRows(rows, begin - loaded_at_, begins)));
    for (uint64_t r = 0; r < n * channels; ++r) {
      std::copy_n(lane_.row(r), bins_, counters_.begin());
      std::copy_n(lane_.outside(r), counters_.size() - bins_, counters_.begin() + bins_);
      Deliver(stretches, s * channels + r, counters_);
    }
    return absl::OkStatus();
  }

  // A stretch of more bytes or channels than a step counts: so many channels at a time, and of
  // these so many pixels.
  absl::Status CountLong(const Stretches& stretches, uint64_t s) {
    const uint32_t channels = rows_->cut->channels;
    const uint64_t pixels_max = lane_.part_bytes_max() / pixel_bytes_;
    const auto some = static_cast<uint32_t>(std::min<uint64_t>(lane_.RowsMax(bins_), channels));
    const size_t slots = counters_.size();
    for (uint32_t c = 0; c < channels; c += some) {
      RowsLaunch rows;
      rows.channels = std::min(some, channels - c);
      if (rows.channels < channels) rows.stride = channels;
      rows.stretches = 1;
      std::vector<uint64_t> sums(rows.channels * slots);
      for (uint64_t at = stretches.begin(s); at < stretches.end(s); at += rows.pixels) {
        rows.pixels = rows.window = rows.step = rows.longest =
            std::min(pixels_max, stretches.end(s) - at);
        HISTOGRAM_RETURN_IF_ERROR(Load(at * pixel_bytes_, rows.pixels * pixel_bytes_));
        const uint64_t offset = at * pixel_bytes_ - loaded_at_ + c * (pixel_bytes_ / channels);
        HISTOGRAM_RETURN_IF_ERROR(Finish(lane_.BeginRows(rows, offset, {})));
        for (uint32_t r = 0; r < rows.channels; ++r) {
          uint64_t* const sum = sums.data() + r * slots;
          for (size_t i = 0; i < slots; ++i) {
            sum[i] += i < bins_ ? lane_.row(r)[i] : lane_.outside(r)[i - bins_];
          }
        }
      }
      for (uint32_t r = 0; r < rows.channels; ++r) {
        Deliver(stretches, s * channels + c + r, std::span(sums).subspan(r * slots, slots));
      }
    }
    return absl::OkStatus();
  }

  void Deliver(const Stretches& stretches, uint64_t row, std::span<const uint64_t> counters) {
    phases_->Counted(row, counters, RowOf(stretches, row));
  }

  // The samples of a row, valid until the next is asked for; any, where the phase reads none.
  std::span<const std::byte> RowOf(const Stretches& stretches, uint64_t row) {
    const uint32_t channels = rows_->cut->channels;
    const uint64_t sample_bytes = pixel_bytes_ / channels, s = row / channels;
    const uint64_t bytes = (stretches.end(s) - stretches.begin(s)) * sample_bytes;
    std::span<const std::byte> samples = Samples().subspan(stretches.begin(s) * pixel_bytes_);
    if (channels > 1 && rows_->reads_samples) {
      channel_.resize(bytes);
      internal::TakeChannel(samples.data() + row % channels * sample_bytes, channels, sample_bytes,
                            channel_);
      samples = channel_;
    }
    return samples.first(bytes);
  }

  // Makes the lane hold these bytes of the payload: all of it, if it can.
  absl::Status Load(uint64_t at, uint64_t bytes) {
    if (loaded_ && at >= loaded_at_ && at + bytes <= loaded_at_ + loaded_bytes_) {
      return absl::OkStatus();
    }
    loaded_ = true;
    const bool all = bytes_ <= lane_.part_bytes_max();
    loaded_at_ = all ? 0 : at;
    loaded_bytes_ = all ? bytes_ : bytes;
    return lane_.Load(payload_, loaded_at_, loaded_bytes_);
  }

  absl::Status Finish(const absl::Status& begun) {
    HISTOGRAM_RETURN_IF_ERROR(begun);
    HISTOGRAM_RETURN_IF_ERROR(wait_());
    lane_.EndStep();
    return absl::OkStatus();
  }

  std::span<const std::byte> Samples() {
    if (!samples_.has_value()) samples_ = InOnePiece(payload_, storage_);
    return *samples_;
  }

  const std::span<const Fragment> payload_;
  const uint64_t bytes_;
  Lane& lane_;
  const absl::FunctionRef<absl::Status()> wait_;
  Phases* phases_ = nullptr;
  std::string storage_;
  std::optional<std::span<const std::byte>> samples_;
  bool loaded_ = false;  // else the lane may hold another payload
  uint64_t loaded_at_ = 0, loaded_bytes_ = 0;
  std::string kernel_;

  // Of the RowsPhase that is executing.
  const RowsPhase* rows_ = nullptr;
  uint32_t bins_ = 0;
  uint64_t pixel_bytes_ = 0;
  std::vector<uint64_t> counters_;
  std::vector<std::byte> channel_;
};

}  // namespace

absl::Status RunPhases(Phases& phases, std::span<const Fragment> payload, Lane& lane,
                       absl::FunctionRef<absl::Status()> wait, BatchReport& report) {
  return Runner(payload, lane, wait).Run(phases, report);
}

}  // namespace histogram::cuda
