#include "kernels/order_statistics.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/features.h"
#include "kernels/order_marks.h"
#include "kernels/parallel.h"
#include "kernels/sample.h"

namespace histogram::internal {
namespace {

// Consecutive samples, at any address.
struct SampleRun {
  const std::byte* samples;
  size_t count;
};

constexpr int kBucketsLog2Max = 16;
// The fewest samples for which a thread pays. Not measured apart.
constexpr size_t kThreadSamplesMin = size_t{1} << 18;
// The most samples that are collected at a time: a quarter of all, or this many if that is more. So
// many are selected by comparisons; more are searched as all samples are. 99 quantiles of 1,000,000
// normal f32 take 206 M samples/s so, 178 with an eighth, 183 with comparisons up to 32,768 (Xeon,
// 1d1d1f98).
constexpr uint64_t kCollectedMin = uint64_t{1} << 12;
// Samples whose keys tell where most keys lie. Buckets between them take four quantiles of normal
// f32 from 0.23 to 0.85 G samples/s, beside digits at fixed places (Sapphire Rapids, 2026-11-25);
// other numbers were not measured.
constexpr size_t kLookedAt = 512;
// The fewest samples for which marks pay: 16,384 of f32 take 0.41 G samples/s with them and 0.32
// without (Zen 4, 2026-11-25). Fewer were not measured.
constexpr size_t kMarkedMin = size_t{1} << 13;

// --- Passes over samples with buckets of keys: one counts, one collects

// Buckets of 2^shift keys each, from `base` to `top`. The first one also holds all lesser keys, the
// last one all greater keys.
template <typename Bits>
struct Buckets {
  static constexpr Bits kKeyMax = std::numeric_limits<Bits>::max();
  Bits base = 0, top = 0;
  int shift = 0;

  HISTOGRAM_INLINE inline uint32_t Of(Bits key) const {
    const Bits inside = std::min(std::max(key, base), top);
    return static_cast<uint32_t>(static_cast<Bits>(inside - base) >> shift);
  }
  uint32_t last() const { return Of(top); }
  uint64_t Least(uint32_t bucket) const {
    return bucket == 0 ? 0 : base + (uint64_t{bucket} << shift);
  }
  uint64_t Greatest(uint32_t bucket) const {
    return bucket == last() ? kKeyMax : base + ((uint64_t{bucket} + 1) << shift) - 1;
  }
};

// Keys that are made at a time. Not measured apart.
constexpr size_t kBlock = 64;

// Finds the keys of consecutive samples, and the keys' buckets.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_INLINE inline void FindBlock(const std::byte* samples, size_t count,
                                       const Buckets<Bits>& buckets, Bits* keys, uint32_t* found) {
  for (size_t i = 0; i < count; ++i) {
    keys[i] = K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits)));
    found[i] = buckets.Of(keys[i]);
  }
}

// Counts the samples of whole blocks.
template <typename K, typename Counts, typename Bits = typename K::Bits>
HISTOGRAM_INLINE inline void CountAll(SampleRun part, Buckets<Bits> buckets, Counts& counts) {
  Bits keys[kBlock];
  alignas(64) uint32_t found[2][kBlock];
  const size_t blocks = part.count / kBlock;
  for (size_t b = 0; b < blocks; ++b, part.samples += kBlock * sizeof(Bits)) {
    cpu::FetchAhead<kBlock * sizeof(Bits)>(part.samples);
    FindBlock<K>(part.samples, kBlock, buckets, keys, found[b & 1]);
    // One block late: increments would wait for buckets that were just stored.
    if (b > 0) counts.template AddAll<kBlock>(found[(b - 1) & 1]);
  }
  if (blocks > 0) counts.template AddAll<kBlock>(found[(blocks - 1) & 1]);
}

// Appends the keys in buckets of which `wanted` is 1: at most `most` with those before.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_INLINE inline void CollectAll(SampleRun part, Buckets<Bits> buckets,
                                        const uint8_t* wanted, size_t most,
                                        std::vector<Bits>& into) {
  Bits keys[2][kBlock];
  uint32_t found[2][kBlock];
  size_t kept = into.size();
  const auto keep = [&](size_t which, size_t count) {
    if (into.size() < kept + count) into.resize(std::min(2 * kept, most) + kBlock);
    Bits* const at = into.data();
    for (size_t i = 0; i < count; ++i) {  // no branch depends on the samples
      at[kept] = keys[which][i];
      kept += wanted[found[which][i]];
    }
  };
  const size_t blocks = part.count / kBlock;
  for (size_t b = 0; b < blocks; ++b, part.samples += kBlock * sizeof(Bits)) {
    cpu::FetchAhead<kBlock * sizeof(Bits)>(part.samples);
    FindBlock<K>(part.samples, kBlock, buckets, keys[b & 1], found[b & 1]);
    if (b > 0) keep((b - 1) & 1, kBlock);  // one block late, as above
  }
  if (blocks > 0) keep((blocks - 1) & 1, kBlock);
  FindBlock<K>(part.samples, part.count % kBlock, buckets, keys[0], found[0]);
  keep(0, part.count % kBlock);
  into.resize(kept);
}

// The samples with keys from lo to hi.
struct Region {
  uint64_t lo = 0, hi = 0;
  uint64_t below = 0, end = 0;  // samples below lo; samples up to hi
  uint64_t count() const { return end - below; }
};

// The search of one call, or of what that one has collected. Each look at a region leaves regions
// that are at least 2^5 times narrower, or hold none of the samples that the look began with.
template <typename K>
class Search {
 public:
  Search(std::span<const std::byte> samples, std::span<const uint64_t> ranks, uint32_t threads)
      : samples_(samples),
        ranks_(ranks),
        found_(ranks.size()),
        parts_(std::clamp<size_t>(size() / kThreadSamplesMin, 1, std::max(1U, threads))),
        budget_(std::max<uint64_t>(kCollectedMin, size() / 4)) {}

  std::vector<uint64_t> Run() {
    if (ranks_.empty()) return {};
    std::vector<Region> regions = SearchBetweenMarks();
    while (!regions.empty()) {
      const Region region = regions.back();
      regions.pop_back();
      Look(region, regions);
    }
    return std::move(found_);
  }

 private:
  using Bits = typename K::Bits;
  static constexpr Bits kKeyMax = std::numeric_limits<Bits>::max();

  size_t size() const { return samples_.size() / sizeof(Bits); }
  uint32_t threads() const { return static_cast<uint32_t>(parts_); }

  // Calls work(part, piece) for each part of the samples, piece by piece. Each part has its own
  // thread, if there is one to be had.
  template <typename Work>
  void ForPieces(const Work& work) const {
    InParallel(parts_, [&](size_t p) {
      const size_t end = p + 1 == parts_ ? size() : size() / parts_ * (p + 1);
      for (size_t first = size() / parts_ * p; first < end; first += cpu::kSamplesMax) {
        const std::byte* const samples = samples_.data() + first * sizeof(Bits);
        work(p, SampleRun{samples, std::min(end - first, cpu::kSamplesMax)});
      }
    });
  }

  // The indices of the ranks in a region.
  std::pair<size_t, size_t> RanksIn(const Region& region) const {
    const auto first = std::lower_bound(ranks_.begin(), ranks_.end(), region.below);
    const auto end = std::lower_bound(first, ranks_.end(), region.end);
    return {static_cast<size_t>(first - ranks_.begin()), static_cast<size_t>(end - ranks_.begin())};
  }

  // Finds ranks in one pass over the samples, if it can. Returns the regions of all other ranks.
  std::vector<Region> SearchBetweenMarks() {
    const std::vector<Region> all = {{.hi = kKeyMax, .end = size()}};
#if defined(HISTOGRAM_MARKS)
    if constexpr (sizeof(Bits) >= 4) {
      if (size() < kMarkedMin || !cpu::HasAvx512Typed()) return all;
      const std::vector<Mark<Bits>> marks = GuessMarks<K>(samples_, ranks_);
      if (marks.empty()) return all;
      const size_t part_max =
          static_cast<size_t>(kCollectedShare * static_cast<double>(size())) / parts_;
      const size_t part_room = part_max + kMarkedBlock;
      const std::unique_ptr<Bits[]> keys(new (std::nothrow) Bits[part_room * parts_]);
      if (keys == nullptr) return all;  // the other way takes less memory
      std::vector<Tally<Bits>> tallies(parts_);
      std::atomic<bool> fits = true;
      ForPieces([&](size_t part, const SampleRun& piece) {
        Tally<Bits>& tally = tallies[part];
        tally.keys = keys.get() + part_room * part;
        tally.collected_max = part_max;
        if (fits && !AddToTally<K>(piece.samples, piece.count, marks, tally)) fits = false;
      });
      if (!fits) return all;
      Tally<Bits>& sum = tallies[0];
      for (size_t p = 1; p < parts_; ++p) {
        for (size_t m = 0; m < marks.size(); ++m) sum.up_to[m] += tallies[p].up_to[m];
        std::copy_n(tallies[p].keys, tallies[p].collected, sum.keys + sum.collected);
        sum.collected += tallies[p].collected;
      }
      return SettleBetween(marks, sum);
    }
#endif
    return all;
  }

#if defined(HISTOGRAM_MARKS)
  // Finds the ranks of which the sample is collected, or is the only key between two marks. Returns
  // the regions of all other ranks.
  std::vector<Region> SettleBetween(std::span<const Mark<Bits>> marks, const Tally<Bits>& tally) {
    bool collected = false;
    for (const Mark<Bits>& mark : marks) collected ^= mark.turns;
    std::vector<Region> left;
    std::vector<uint64_t> places;  // of ranks, among the collected keys
    std::vector<size_t> placed;    // these ranks' indices
    uint64_t before = 0;           // keys that were collected between marks so far
    Region region;
    for (size_t r = 0, m = 0; m <= marks.size(); ++m) {
      region.hi = m < marks.size() ? marks[m].key : kKeyMax;
      region.end = m < marks.size() ? tally.up_to[m] : size();
      const bool alone = region.lo == region.hi;
      if (!alone && !collected && r < ranks_.size() && ranks_[r] < region.end) {
        left.push_back(region);
      }
      for (; r < ranks_.size() && ranks_[r] < region.end; ++r) {
        if (alone) {
          found_[r] = region.lo;
        } else if (collected) {
          places.push_back(before + ranks_[r] - region.below);
          placed.push_back(r);
        }
      }
      if (collected) before += region.count();
      if (m < marks.size()) collected ^= marks[m].turns;
      region.lo = region.hi + 1;
      region.below = region.end;
    }
    assert(tally.collected == before);
    const auto keys = std::as_bytes(std::span(tally.keys, tally.collected));
    const std::vector<uint64_t> found =
        Search<Keyed<Bits, Ordered::kUnsigned>>(keys, places, threads()).Run();
    for (size_t i = 0; i < placed.size(); ++i) found_[placed[i]] = found[i];
    return left;
  }
#endif

  // Buckets for a region. They are as narrow as some samples of it allow.
  Buckets<Bits> Split(const Region& region) const {
    Bits least = Buckets<Bits>::kKeyMax, greatest = 0;
    const size_t step = size() / kLookedAt | 1;
    for (size_t i = 0; i < size(); i += step) {
      const Bits key = K::KeyOf(LoadBits<Bits>(samples_.data() + i * sizeof(Bits)));
      if (key < region.lo || key > region.hi) continue;
      least = std::min(least, key);
      greatest = std::max(greatest, key);
    }
    if (least > greatest) {
      least = static_cast<Bits>(region.lo);
      greatest = static_cast<Bits>(region.hi);
    }
    // Few samples need few buckets: to clear and to sum them takes time.
    const int buckets_log2 =
        std::clamp(static_cast<int>(std::bit_width(size())) - 6, 6, kBucketsLog2Max);
    const auto width = static_cast<int>(std::bit_width(static_cast<Bits>(greatest - least)));
    Buckets<Bits> buckets{.shift = std::max(0, width - buckets_log2)};
    // One more bucket at each end takes what lies outside.
    const auto room = static_cast<Bits>(Bits{1} << buckets.shift);
    buckets.base = least >= room ? least - room : 0;
    buckets.top =
        Buckets<Bits>::kKeyMax - greatest >= room ? greatest + room : Buckets<Bits>::kKeyMax;
    return buckets;
  }

  std::vector<uint64_t> Count(const Buckets<Bits>& buckets) const {
    std::vector<std::vector<uint64_t>> rows(parts_);
    ForPieces([&](size_t part, const SampleRun& piece) {
      std::vector<uint64_t>& row = rows[part];
      row.resize(buckets.last() + 1);
      cpu::CountInto(piece.count, row.size(), row.data(), [&](auto& counts) {
        cpu::CallFast([&]() HISTOGRAM_INLINE { CountAll<K>(piece, buckets, counts); });
      });
      for (size_t i = piece.count / kBlock * kBlock; i < piece.count; ++i) {
        ++row[buckets.Of(K::KeyOf(LoadBits<Bits>(piece.samples + i * sizeof(Bits))))];
      }
    });
    for (size_t p = 1; p < parts_; ++p) {
      for (size_t b = 0; b < rows[0].size(); ++b) rows[0][b] += rows[p][b];
    }
    return std::move(rows[0]);
  }

  // Finds the ranks of a region, or appends smaller regions that hold them.
  void Look(const Region& region, std::vector<Region>& regions) {
    const Buckets<Bits> buckets = Split(region);
    const std::vector<uint64_t> counts = Count(buckets);
    auto [rank, ranks_end] = RanksIn(region);
    std::vector<Region> small;
    std::vector<uint8_t> wanted(counts.size());
    uint64_t total = 0, end = 0;
    for (uint32_t b = 0; rank < ranks_end; ++b) {
      const uint64_t below = std::exchange(end, end + counts[b]);
      if (ranks_[rank] >= end) continue;
      // The buckets at the ends may also hold samples that are not in the region.
      const Region inner{.lo = std::max(region.lo, buckets.Least(b)),
                         .hi = std::min(region.hi, buckets.Greatest(b)),
                         .below = std::max(region.below, below),
                         .end = std::min(region.end, end)};
      const size_t first = rank;
      while (rank < ranks_end && ranks_[rank] < inner.end) ++rank;
      if (inner.lo == inner.hi) {
        std::fill_n(found_.begin() + static_cast<ptrdiff_t>(first), rank - first, inner.lo);
      } else if (inner.count() < counts[b] || inner.count() > budget_) {
        regions.push_back(inner);
      } else {
        if (total + inner.count() > budget_) {
          Collect(buckets, wanted, small);
          std::fill(wanted.begin(), wanted.end(), 0);
          small.clear();
          total = 0;
        }
        total += inner.count();
        wanted[b] = 1;
        small.push_back(inner);
      }
    }
    if (!small.empty()) Collect(buckets, wanted, small);
  }

  // Finds the ranks of regions, which ascend, among their samples: those in wanted buckets.
  void Collect(const Buckets<Bits>& buckets, const std::vector<uint8_t>& wanted,
               const std::vector<Region>& regions) {
    size_t most = 0;
    for (const Region& region : regions) most += region.count();
    std::vector<std::vector<Bits>> parts(parts_);
    if (parts_ == 1) parts[0].reserve(most + kBlock);  // or it grows beside a copy of itself
    ForPieces([&](size_t part, const SampleRun& piece) {
      cpu::CallFast([&]() HISTOGRAM_INLINE {
        CollectAll<K>(piece, buckets, wanted.data(), most, parts[part]);
      });
    });
    std::vector<Bits>& keys = parts[0];
    for (size_t p = 1; p < parts_; ++p) keys.insert(keys.end(), parts[p].begin(), parts[p].end());
    std::vector<uint64_t> places;  // of the ranks, among the keys
    uint64_t before = 0;           // keys of the regions so far
    for (const Region& region : regions) {
      const auto [first, end] = RanksIn(region);
      for (size_t r = first; r < end; ++r) places.push_back(before + ranks_[r] - region.below);
      before += region.count();
    }
    assert(keys.size() == before);
    std::vector<uint64_t> found;
    if (keys.size() > kCollectedMin) {
      const auto bytes = std::as_bytes(std::span(keys));
      found = Search<Keyed<Bits, Ordered::kUnsigned>>(bytes, places, threads()).Run();
    } else {
      SelectAll(keys.data(), keys.data() + keys.size(), places);
      for (const uint64_t place : places) found.push_back(keys[place]);
    }
    auto key = found.begin();
    for (const Region& region : regions) {
      const auto [first, end] = RanksIn(region);
      for (size_t r = first; r < end; ++r) found_[r] = *key++;
    }
  }

  const std::span<const std::byte> samples_;
  const std::span<const uint64_t> ranks_;
  std::vector<uint64_t> found_;
  const size_t parts_;
  const uint64_t budget_;
};

}  // namespace

std::vector<uint64_t> KeysAtRanks(std::span<const std::byte> samples, SampleType type,
                                  std::span<const uint64_t> ranks, uint32_t threads) {
  assert(std::is_sorted(ranks.begin(), ranks.end()));
  return VisitKeyed(type, [&]<typename K>(K) {
    using Bits = typename K::Bits;
    const size_t count = samples.size() / sizeof(Bits);
    if (!ranks.empty() && count <= kLoneRowSamplesMax) {
      std::vector<Bits> found(ranks.size());
      SamplesAtRanksOfRows(samples, type, count, ranks, 1,
                           std::as_writable_bytes(std::span(found)));
      std::vector<uint64_t> keys(found.size());
      for (size_t r = 0; r < keys.size(); ++r) keys[r] = K::KeyOf(found[r]);
      // If a sample of a row is NaN, all results of the row are.
      const bool nan = K::kIsFloat && keys.front() == std::numeric_limits<Bits>::max();
      if (!nan) return keys;
    }
    return Search<K>(samples, ranks, threads == 0 ? UsableCores() : threads).Run();
  });
}

uint64_t BitsOfKey(uint64_t key, SampleType type) {
  return VisitKeyed(type, [&]<typename K>(K) -> uint64_t {
    return K::BitsOf(static_cast<typename K::Bits>(key));
  });
}

}  // namespace histogram::internal
