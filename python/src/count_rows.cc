#include "python/src/count_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/parallel.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "python/src/plans.h"

namespace histogram::python {
namespace {

// Of interleaved channels so many bytes are taken apart at once: they stay in a core's cache. So
// many samples of a channel repay a call that counts them.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kPieceSamples = 2048;
// The counters of a thread, if one channel does not take more.
constexpr size_t kCountersMax = size_t{1} << 19;
// Up to here doubles hold all integers.
constexpr double kWholeMax = 0x1p53;

void Check(uint64_t sum, size_t samples) {
  if (sum == samples) return;
  throw std::runtime_error("counts add up to " + std::to_string(sum) + ", not to the " +
                           std::to_string(samples) + " samples: a defect of this library");
}

bool IsFloat(SampleType type) {
  return type == SampleType::kF16 || type == SampleType::kBf16 || type == SampleType::kF32 ||
         type == SampleType::kF64;
}

bool HasNegativeZero(std::span<const std::byte> samples, size_t size) {
  for (size_t i = 0; i < samples.size(); i += size) {
    const bool sign = samples[i + size - 1] == std::byte{0x80};
    const auto rest = samples.subspan(i, size - 1);
    if (sign &&
        std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; }))
      return true;
  }
  return false;
}

// What a row's range follows from.
struct Seen {
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  bool finite = true;
  bool negative_zero = false;

  void Add(const Seen& other) {
    least = std::min(least, other.least);
    greatest = std::max(greatest, other.greatest);
    finite &= other.finite;
    negative_zero |= other.negative_zero;
  }
};

Seen SeenIn(std::span<const std::byte> samples, SampleType type) {
  const std::optional<Extent> extent = FindExtent(samples, type);
  if (!extent.has_value()) return {.finite = samples.empty()};
  Seen seen{.least = extent->least, .greatest = extent->greatest, .finite = extent->finite};
  // Only there it would be the last edge, or not, as numpy's order of comparisons has it.
  if (IsFloat(type) && seen.greatest == 0) {
    seen.negative_zero = HasNegativeZero(samples, SampleBytes(type));
  }
  return seen;
}

// The plan over a range, whose edges it writes; nullopt where numpy has to make them.
template <typename Edge>
std::optional<Plan> PlanOver(const Seen& seen, SampleType type, uint64_t samples,
                             std::span<Edge> edges) {
  const internal::FloatMode mode;
  edges[0] = std::numeric_limits<Edge>::quiet_NaN();
  double first = seen.least, last = seen.greatest;
  if (!seen.finite || (last == 0 && seen.negative_zero)) return std::nullopt;
  if (!IsFloat(type) && std::max(-first, last) > kWholeMax) return std::nullopt;
  EvenRule::Type its = EvenRule::Type::kDouble;
  if (std::is_same_v<Edge, float>) its = EvenRule::Type::kFloat;
  if (type == SampleType::kF16) its = EvenRule::Type::kHalf;
  if (first == last) {
    const auto rounded = [its](double end) {
      if (its == EvenRule::Type::kHalf) return RoundedToHalf(end);
      return its == EvenRule::Type::kFloat ? static_cast<float>(end) : end;
    };
    first = rounded(first - 0.5);
    last = rounded(last + 0.5);
  }
  const EvenRule rule{.arithmetic = its, .edges = its};
  const std::optional<Binning> binning = EvenEdges(first, last, rule, edges);
  if (binning.has_value()) return *Plan::MakeFor(*binning, type, samples);
  edges[0] = std::numeric_limits<Edge>::quiet_NaN();
  return std::nullopt;
}

// Some channels of a stretch: rows that are counted together.
struct Block {
  std::span<const std::byte> stretch;
  uint32_t first = 0, count = 0;
  uint64_t row = 0;  // of the first channel
};

// Counts blocks, one after the other. One thread owns it.
class Counter {
 public:
  // Counts by the plan, or, without one, over the ranges.
  Counter(const Plan* plan, const OwnRanges* ranges, const RowCut& cut, const RowSink& sink)
      : plan_(plan),
        ranges_(ranges),
        type_(plan != nullptr ? plan->type() : ranges->type),
        bins_(plan != nullptr ? plan->bin_count() : ranges->bins),
        channels_(cut.channels),
        sample_bytes_(SampleBytes(type_)),
        slots_(internal::SlotCount(bins_)),
        sink_(sink) {}

  void Count(const Block& block, uint32_t threads) {
    const size_t pixels = block.stretch.size() / sample_bytes_ / channels_;
    const size_t bytes = pixels * block.count * sample_bytes_;
    // Each thread also clears and sums its counters.
    const size_t least = std::max(kThreadBytesMin, slots_ * block.count * 4 * sample_bytes_);
    const size_t parts = std::clamp<size_t>(bytes / least, 1, threads);
    if (ranges_ != nullptr) MakePlans(block, pixels, parts);
    counters_.assign(parts * block.count * slots_, 0);
    ForEachPiece(block, pixels, parts, [&](size_t p, uint32_t c, auto samples) {
      const Plan* const plan = PlanOf(c);
      if (plan == nullptr) return;
      const Fragment fragment = FragmentOf(samples);
      AddPayload(*plan, {&fragment, 1}, Row(p * block.count + c));
    });
    for (uint32_t c = 0; c < block.count; ++c) {
      for (size_t p = 1; p < parts; ++p) {
        const std::span<const uint64_t> more = Row(p * block.count + c);
        for (size_t i = 0; i < slots_; ++i) Row(c)[i] += more[i];
      }
      if (PlanOf(c) != nullptr) Put(Row(c), pixels, block.row + c);
    }
  }

 private:
  std::span<uint64_t> Row(size_t row) { return std::span(counters_).subspan(row * slots_, slots_); }

  const Plan* PlanOf(uint32_t channel) const {
    if (plan_ != nullptr) return plan_;
    return plans_[channel].has_value() ? &*plans_[channel] : nullptr;
  }

  void MakePlans(const Block& block, size_t pixels, size_t parts) {
    std::vector<Seen> seen(parts * block.count);
    ForEachPiece(block, pixels, parts, [&](size_t p, uint32_t c, auto samples) {
      seen[p * block.count + c].Add(SeenIn(samples, type_));
    });
    plans_.resize(block.count);
    for (uint32_t c = 0; c < block.count; ++c) {
      for (size_t p = 1; p < parts; ++p) seen[c].Add(seen[p * block.count + c]);
      std::visit(
          [&](auto edges) {
            const size_t size = size_t{bins_} + 1;
            plans_[c] =
                PlanOver(seen[c], type_, pixels, edges.subspan((block.row + c) * size, size));
          },
          ranges_->edges);
    }
  }

  // Calls visit(part, channel, samples) with all samples of the block's channels, in `parts` parts
  // of the pixels, each on a thread of its own.
  template <typename Visit>
  void ForEachPiece(const Block& block, size_t pixels, size_t parts, const Visit& visit) {
    const size_t pixel_bytes = sample_bytes_ * channels_;
    const auto visit_part = [&](size_t part) {
      const size_t begin = pixels * part / parts, end = pixels * (part + 1) / parts;
      const auto all = block.stretch.subspan(begin * pixel_bytes, (end - begin) * pixel_bytes);
      if (channels_ == 1) return visit(part, uint32_t{0}, all);
      std::vector<std::byte> channel;
      const size_t step = PiecePixels(block.count);
      for (size_t at = begin; at < end; at += step) {
        const std::byte* const from =
            block.stretch.data() + at * pixel_bytes + block.first * sample_bytes_;
        channel.resize(std::min(step, end - at) * sample_bytes_);
        for (uint32_t c = 0; c < block.count; ++c) {
          internal::TakeChannel(from + c * sample_bytes_, channels_, sample_bytes_, channel);
          visit(part, c, std::span<const std::byte>(channel));
        }
      }
    };
    if (parts == 1) return visit_part(0);
    internal::InParallel(parts, visit_part);
  }

  size_t PiecePixels(uint32_t channels) const {
    return std::max<size_t>(1, kPieceBytes / (sample_bytes_ * channels));
  }

  void Put(std::span<const uint64_t> counters, size_t samples, uint64_t row) {
    Check(std::accumulate(counters.begin(), counters.end(), uint64_t{0}), samples);
    std::copy_n(counters.begin(), bins_, sink_.counts.begin() + row * bins_);
    const uint64_t* const outside = counters.data() + bins_;
    sink_.outside[row * 3] = static_cast<int64_t>(outside[internal::kBelowSlot]);
    sink_.outside[row * 3 + 1] = static_cast<int64_t>(outside[internal::kAboveSlot]);
    sink_.outside[row * 3 + 2] = static_cast<int64_t>(outside[internal::kNanSlot]);
  }

  const Plan* const plan_;
  const OwnRanges* const ranges_;
  const SampleType type_;
  const uint32_t bins_, channels_;
  const size_t sample_bytes_, slots_;
  const RowSink& sink_;
  std::vector<std::optional<Plan>> plans_;
  std::vector<uint64_t> counters_;
};

void CountAll(std::span<const std::byte> samples, const Plan* plan, const OwnRanges* ranges,
              const RowCut& cut, uint64_t stretches, uint32_t threads, const RowSink& sink) {
  const size_t sample_bytes = SampleBytes(plan != nullptr ? plan->type() : ranges->type);
  const size_t bins = plan != nullptr ? plan->bin_count() : ranges->bins;
  const size_t pixel_bytes = sample_bytes * cut.channels, pixels = samples.size() / pixel_bytes;
  const bool one = cut.kind == RowCut::Kind::kOne;
  const uint64_t window = one ? pixels : std::min<uint64_t>(cut.window, pixels);
  const uint64_t step = one || cut.step == 0 ? cut.window : cut.step;
  // Blocks of channels: as many as make a piece, and whose counters fit a cache.
  const size_t length = std::clamp<size_t>(window, 1, kPieceSamples);
  const size_t together = std::clamp<size_t>(
      std::min(kPieceBytes / (length * sample_bytes), kCountersMax / (bins + 3)), 1, cut.channels);
  const uint64_t blocks = (cut.channels + together - 1) / together, all = stretches * blocks;
  const auto count = [&](uint64_t first, uint64_t last, uint32_t its_threads) {
    Counter counter(plan, ranges, cut, sink);
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t begin = i / blocks * step, channel = i % blocks * together;
      counter.Count({.stretch = samples.subspan(begin * pixel_bytes,
                                                std::min(window, pixels - begin) * pixel_bytes),
                     .first = static_cast<uint32_t>(channel),
                     .count = static_cast<uint32_t>(std::min(together, cut.channels - channel)),
                     .row = i / blocks * cut.channels + channel},
                    its_threads);
    }
  };
  // Where there is no block more than threads, each is counted by all of them.
  const size_t parts = std::clamp<size_t>(samples.size() / kThreadBytesMin, 1, threads);
  if (all <= threads || parts == 1) return count(0, all, threads);
  internal::InParallel(parts, [&](size_t p) { count(all * p / parts, all * (p + 1) / parts, 1); });
}

}  // namespace

void CheckSum(const Histogram& histogram, size_t samples) {
  const uint64_t outside = histogram.below + histogram.above + histogram.nan;
  Check(std::accumulate(histogram.counts.begin(), histogram.counts.end(), outside), samples);
}

void CountSlots(std::span<const std::byte> samples, const Plan& plan, uint32_t threads,
                std::span<uint64_t> row) {
  std::fill(row.begin(), row.end(), 0);
  AddPayload(plan, samples, threads, row);
  Check(std::accumulate(row.begin(), row.end(), uint64_t{0}),
        samples.size() / SampleBytes(plan.type()));
}

void CountStretches(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink) {
  CountAll(samples, &plan, nullptr, cut, stretches, threads, sink);
}

void CountStretches(std::span<const std::byte> samples, const OwnRanges& ranges, const RowCut& cut,
                    uint64_t stretches, uint32_t threads, const RowSink& sink) {
  CountAll(samples, nullptr, &ranges, cut, stretches, threads, sink);
}

}  // namespace histogram::python
