#include <histogram/rows.h>
#include <histogram/usable_cores.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/payload.h"
#include "kernels/plan_data.h"
#include "kernels/rows.h"

namespace histogram {
namespace {

// Fewer do not repay a thread, whose start takes about 30 us. Neither this nor the sizes below were
// measured apart.
constexpr size_t kThreadBytesMin = size_t{512} << 10;
// Of interleaved channels so many bytes are taken apart at once: they stay in a core's cache. So
// many samples of a channel repay a call that counts them.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kPieceSamples = 2048;
constexpr size_t kCacheLine = 64;
// The counters of a thread, if one channel does not take more.
constexpr size_t kCountersMax = size_t{1} << 19;

// The plan of all rows, or what tells that of each.
struct Work {
  const Plan* plan;
  const PlanOfRow* plan_of;
  SampleType type;
  uint32_t counters;  // of a row
  const RowCut& cut;
  const TakeRow& take;
};

// Some channels of a stretch: rows that are counted together.
struct Block {
  std::span<const std::byte> stretch;
  uint32_t first = 0, count = 0;
  uint64_t row = 0;  // of the first channel
};

// The extent of no samples.
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Extent kNone = {.least = kInfinity, .greatest = -kInfinity};

void Add(const Extent& more, Extent& to) {
  to.least = std::min(to.least, more.least);
  to.greatest = std::max(to.greatest, more.greatest);
  to.finite &= more.finite;
  to.negative_zero |= more.negative_zero;
}

// Counts blocks, one after the other. One thread owns it.
class BlockCounter {
 public:
  explicit BlockCounter(const Work& work) : work_(work), sample_bytes_(SampleBytes(work.type)) {}

  void Count(const Block& block, uint32_t threads) {
    const uint32_t channels = work_.cut.channels;
    const size_t pixels = block.stretch.size() / sample_bytes_ / channels;
    const size_t bytes = pixels * block.count * sample_bytes_;
    // Each thread also clears and sums its counters.
    const size_t each = size_t{work_.counters} * block.count;
    const size_t least = std::max(kThreadBytesMin, each * 4 * sample_bytes_);
    const size_t parts = std::clamp<size_t>(bytes / least, 1, threads);
    if (work_.plan == nullptr) MakePlans(block, pixels, parts);
    counters_.assign(parts * each, 0);
    ForEachPiece(block, pixels, parts, [&](size_t part, uint32_t c, auto samples) {
      const Plan* const plan = PlanOf(c);
      if (plan == nullptr) return;
      const Fragment fragment = FragmentOf(samples);
      AddPayload(*plan, {&fragment, 1}, Row(part * block.count + c));
    });
    for (size_t i = each; i < counters_.size(); ++i) counters_[i % each] += counters_[i];
    for (uint32_t c = 0; c < block.count; ++c) {
      if (PlanOf(c) == nullptr) continue;
      work_.take({.row = block.row + c, .samples = pixels, .counters = Row(c)});
    }
  }

 private:
  std::span<uint64_t> Row(size_t row) {
    return std::span(counters_).subspan(row * work_.counters, work_.counters);
  }

  const Plan* PlanOf(uint32_t channel) const {
    if (work_.plan != nullptr) return work_.plan;
    return plans_[channel].has_value() ? &*plans_[channel] : nullptr;
  }

  void MakePlans(const Block& block, size_t pixels, size_t parts) {
    extents_.assign(parts * block.count, kNone);
    ForEachPiece(block, pixels, parts, [&](size_t part, uint32_t c, auto samples) {
      Extent none = kNone;
      none.finite = samples.empty();
      Add(FindExtent(samples, work_.type).value_or(none), extents_[part * block.count + c]);
    });
    plans_.resize(block.count);
    for (uint32_t c = 0; c < block.count; ++c) {
      Extent all = kNone;
      for (size_t at = c; at < extents_.size(); at += block.count) Add(extents_[at], all);
      all.negative_zero &= all.greatest == 0;  // of all parts
      const bool any = all.least <= all.greatest;
      plans_[c] = (*work_.plan_of)(block.row + c, any ? std::optional(all) : std::nullopt, pixels);
    }
  }

  // Calls visit(part, channel, samples) with all samples of the block's channels, in `parts` parts
  // of the pixels, each on a thread of its own.
  template <typename Visit>
  void ForEachPiece(const Block& block, size_t pixels, size_t parts, const Visit& visit) {
    const uint32_t channels = work_.cut.channels;
    const size_t pixel_bytes = sample_bytes_ * channels;
    const auto visit_part = [&](size_t part) {
      const size_t begin = pixels * part / parts, end = pixels * (part + 1) / parts;
      const auto all = block.stretch.subspan(begin * pixel_bytes, (end - begin) * pixel_bytes);
      if (channels == 1) return visit(part, uint32_t{0}, all);
      std::vector<std::byte> taken;
      const size_t step = std::max<size_t>(1, kPieceBytes / (sample_bytes_ * block.count));
      for (size_t at = begin; at < end; at += step) {
        const size_t piece = std::min(step, end - at), bytes = piece * sample_bytes_;
        // Not a power of two: of such a distance a cache holds few lines.
        const size_t apart = bytes + kCacheLine;
        taken.resize(internal::kChannelsAtOnce * apart);
        for (uint32_t c = 0, more = 1; c < block.count; c += more) {
          const std::byte* const from =
              block.stretch.data() + at * pixel_bytes + (size_t{block.first} + c) * sample_bytes_;
          const bool many = block.count - c >= internal::kChannelsAtOnce;
          more = many ? internal::kChannelsAtOnce : 1;
          const auto take =
              many ? internal::TakeChannels<internal::kChannelsAtOnce> : internal::TakeChannels<1>;
          take(from, channels, sample_bytes_, piece, taken.data(), apart);
          for (uint32_t i = 0; i < more; ++i) {
            visit(part, c + i, std::span<const std::byte>(taken.data() + i * apart, bytes));
          }
        }
      }
    };
    if (parts == 1) return visit_part(0);
    internal::InParallel(parts, visit_part);
  }

  const Work& work_;
  const size_t sample_bytes_;
  std::vector<std::optional<Plan>> plans_;
  std::vector<Extent> extents_;
  std::vector<uint64_t> counters_;
};

void CountAll(std::span<const std::byte> samples, const Work& work, uint32_t threads) {
  const size_t sample_bytes = SampleBytes(work.type);
  const uint64_t count = samples.size() / sample_bytes;
  const uint32_t channels = work.cut.channels;
  const size_t pixel_bytes = sample_bytes * channels;
  const Stretches stretches(work.cut, count);
  // Blocks of channels: as many as make a piece, and whose counters fit a cache.
  const size_t length = std::clamp<size_t>(work.cut.Longest(count), 1, kPieceSamples);
  const uint64_t together = std::clamp<uint64_t>(
      std::min(kPieceBytes / (length * sample_bytes), kCountersMax / work.counters), 1, channels);
  const uint64_t blocks = (channels + together - 1) / together, all = stretches.count() * blocks;
  const auto count_blocks = [&](uint64_t first, uint64_t last, uint32_t its_threads) {
    BlockCounter counter(work);
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t begin = stretches.begin(i / blocks), end = stretches.end(i / blocks);
      const uint64_t channel = i % blocks * together;
      counter.Count({.stretch = samples.subspan(begin * pixel_bytes, (end - begin) * pixel_bytes),
                     .first = static_cast<uint32_t>(channel),
                     .count = static_cast<uint32_t>(std::min(together, channels - channel)),
                     .row = i / blocks * channels + channel},
                    its_threads);
    }
  };
  if (threads == 0) threads = samples.size() < 2 * kThreadBytesMin ? 1 : UsableCores();
  // If there are no more blocks than threads, all threads together count each block.
  const size_t parts = std::clamp<size_t>(samples.size() / kThreadBytesMin, 1, threads);
  if (all <= threads || parts == 1) return count_blocks(0, all, threads);
  internal::InParallel(parts,
                       [&](size_t p) { count_blocks(all * p / parts, all * (p + 1) / parts, 1); });
}

}  // namespace

void CountRows(std::span<const std::byte> samples, const Plan& plan, const RowCut& cut,
               uint32_t threads, const TakeRow& take) {
  CountAll(samples, {&plan, nullptr, plan.type(), plan.counter_count(), cut, take}, threads);
}

void CountRows(std::span<const std::byte> samples, SampleType type, uint32_t bins,
               const PlanOfRow& plan_of, const RowCut& cut, uint32_t threads, const TakeRow& take) {
  CountAll(samples, {nullptr, &plan_of, type, internal::SlotCount(bins), cut, take}, threads);
}

}  // namespace histogram
