#include "kernels/order_statistics.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"

// What is called by functions for several instruction sets is compiled into each of them.
#if defined(__GNUC__)
#define HISTOGRAM_ORDER_INLINE __attribute__((always_inline)) inline
#else
#define HISTOGRAM_ORDER_INLINE inline
#endif
#if defined(__x86_64__) && defined(__GNUC__)
#define HISTOGRAM_ORDER_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#else
#define HISTOGRAM_ORDER_AVX512
#endif

namespace histogram::internal {
namespace {

constexpr int kBucketsLog2Max = 16;
// The fewest samples for which a thread pays.
constexpr size_t kThreadSamplesMin = size_t{1} << 18;
// The most samples that are collected at a time: an eighth of all, or this many if that is more.
constexpr uint64_t kCollectedMin = uint64_t{1} << 12;
// Samples whose keys tell where most keys lie.
constexpr size_t kLookedAt = 512;
// Keys that are made at a time.
constexpr size_t kBlock = 64;

enum class Kind : uint8_t { kUnsigned, kSigned, kFloat };

// The key of a sample, and back. `B`: the unsigned integer of the sample's width.
template <typename B, Kind kKind, int kMantissaBits = 0>
struct Keyed {
  using Bits = B;
  static constexpr int kBits = sizeof(B) * 8;
  static constexpr B kSign = static_cast<B>(B{1} << (kBits - 1));

  HISTOGRAM_ORDER_INLINE static B KeyOf(B bits) {
    if constexpr (kKind == Kind::kSigned) return bits ^ kSign;
    if constexpr (kKind == Kind::kFloat) {
      constexpr B kInfinity = static_cast<B>((kSign - 1) >> kMantissaBits << kMantissaBits);
      const bool negative = (bits & kSign) != 0;
      const bool nan = static_cast<B>(bits & ~kSign) > kInfinity;
      // Arithmetic, because compilers turn a conditional expression into branches.
      const B key = bits ^ static_cast<B>(kSign | -B{negative});
      return static_cast<B>((key + B{bits == kSign}) | -B{nan});
    }
    return bits;
  }
  static B BitsOf(B key) {
    if constexpr (kKind == Kind::kSigned) return key ^ kSign;
    if constexpr (kKind == Kind::kFloat) {
      return (key & kSign) != 0 ? key ^ kSign : static_cast<B>(~key);
    }
    return key;
  }
};

template <typename Visit>
auto VisitKeyed(SampleType type, Visit&& visit) {
  switch (type) {
    case SampleType::kU8:
      return visit(Keyed<uint8_t, Kind::kUnsigned>());
    case SampleType::kI8:
      return visit(Keyed<uint8_t, Kind::kSigned>());
    case SampleType::kU16:
      return visit(Keyed<uint16_t, Kind::kUnsigned>());
    case SampleType::kI16:
      return visit(Keyed<uint16_t, Kind::kSigned>());
    case SampleType::kF16:
      return visit(Keyed<uint16_t, Kind::kFloat, 10>());
    case SampleType::kBf16:
      return visit(Keyed<uint16_t, Kind::kFloat, 7>());
    case SampleType::kU32:
      return visit(Keyed<uint32_t, Kind::kUnsigned>());
    case SampleType::kI32:
      return visit(Keyed<uint32_t, Kind::kSigned>());
    case SampleType::kF32:
      return visit(Keyed<uint32_t, Kind::kFloat, 23>());
    case SampleType::kU64:
      return visit(Keyed<uint64_t, Kind::kUnsigned>());
    case SampleType::kI64:
      return visit(Keyed<uint64_t, Kind::kSigned>());
    case SampleType::kF64:
      break;
  }
  return visit(Keyed<uint64_t, Kind::kFloat, 52>());
}

// Calls work(part, first, end) for each part of `count` samples. Each part has its own thread.
template <typename Work>
void ForParts(size_t count, size_t parts, const Work& work) {
  std::vector<std::jthread> others;
  others.reserve(parts - 1);
  for (size_t p = 1; p < parts; ++p) {
    others.emplace_back([&work, p, count, parts] {
      work(p, count / parts * p, p + 1 == parts ? count : count / parts * (p + 1));
    });
  }
  work(0, 0, parts == 1 ? count : count / parts);
}

// The samples with keys from lo to hi.
struct Region {
  uint64_t lo = 0, hi = 0;
  uint64_t below = 0, end = 0;  // samples below lo; samples up to hi
  uint64_t count() const { return end - below; }
};

// Buckets of 2^shift keys each, from `base` to `top`. The first one also holds all lesser keys, the
// last one all greater keys.
template <typename Bits>
struct Buckets {
  static constexpr Bits kKeyMax = std::numeric_limits<Bits>::max();
  Bits base = 0, top = 0;
  int shift = 0;

  HISTOGRAM_ORDER_INLINE uint32_t Of(Bits key) const {
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

// Finds the keys of consecutive samples, and the keys' buckets.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_ORDER_INLINE void FindBlock(const std::byte* samples, size_t count,
                                      const Buckets<Bits>& buckets, Bits* keys, uint32_t* found) {
  for (size_t i = 0; i < count; ++i) {
    keys[i] = K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits)));
    found[i] = buckets.Of(keys[i]);
  }
}

// Consecutive samples: those of one thread.
struct Part {
  const std::byte* samples;
  size_t count;
};

// Counts the samples of whole blocks.
template <typename K, typename Counts, typename Bits = typename K::Bits>
HISTOGRAM_ORDER_INLINE void CountAll(Part part, Buckets<Bits> buckets, Counts& counts) {
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

// Sets `into` to the keys in buckets of which `wanted` is 1.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_ORDER_INLINE void CollectAll(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                                       std::vector<Bits>& into) {
  Bits keys[kBlock];
  uint32_t found[kBlock];
  size_t kept = 0;
  while (part.count > 0) {
    const size_t count = std::min(kBlock, part.count);
    if (into.size() < kept + kBlock) into.resize(2 * kept + kBlock);
    if (count == kBlock) {
      cpu::FetchAhead<kBlock * sizeof(Bits)>(part.samples);
      FindBlock<K>(part.samples, kBlock, buckets, keys, found);
    } else {
      FindBlock<K>(part.samples, count, buckets, keys, found);
    }
    Bits* const at = into.data();
    for (size_t i = 0; i < count; ++i) {  // no branch depends on the samples
      at[kept] = keys[i];
      kept += wanted[found[i]];
    }
    part.samples += count * sizeof(Bits);
    part.count -= count;
  }
  into.resize(kept);
}

template <typename K, typename Counts>
void CountPlain(Part part, Buckets<typename K::Bits> buckets, Counts& counts) {
  CountAll<K>(part, buckets, counts);
}
template <typename K, typename Counts>
HISTOGRAM_ORDER_AVX512 void CountAvx512(Part part, Buckets<typename K::Bits> buckets,
                                        Counts& counts) {
  CountAll<K>(part, buckets, counts);
}
template <typename K, typename Bits = typename K::Bits>
void CollectPlain(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                  std::vector<Bits>& into) {
  CollectAll<K>(part, buckets, wanted, into);
}
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_ORDER_AVX512 void CollectAvx512(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                                          std::vector<Bits>& into) {
  CollectAll<K>(part, buckets, wanted, into);
}

// Puts the right keys at the places, which ascend and are counted from `first`: those that sorting
// would put there.
template <typename Key>
void SelectAll(Key first, Key end, std::span<const uint64_t> places, uint64_t before = 0) {
  if (places.empty()) return;
  const uint64_t middle = places[places.size() / 2];
  const Key at = first + static_cast<ptrdiff_t>(middle - before);
  std::nth_element(first, at, end);
  const auto [less, greater] = std::equal_range(places.begin(), places.end(), middle);
  SelectAll(first, at, {places.begin(), less}, before);
  SelectAll(at + 1, end, {greater, places.end()}, middle + 1);
}

// The search of one call. Each look at a region leaves regions that are at least 2^5 times
// narrower, or hold none of the samples that the look began with.
template <typename K>
class Search {
 public:
  Search(std::span<const std::byte> samples, std::span<const uint64_t> ranks, uint32_t threads)
      : samples_(samples),
        ranks_(ranks),
        found_(ranks.size()),
        parts_(std::clamp<size_t>(size() / kThreadSamplesMin, 1, std::max(1U, threads))),
        budget_(std::max<uint64_t>(kCollectedMin, size() / 8)) {}

  std::vector<uint64_t> Run() {
    std::vector<Region> regions;
    if (!ranks_.empty()) regions.push_back({.hi = Buckets<Bits>::kKeyMax, .end = size()});
    while (!regions.empty()) {
      const Region region = regions.back();
      regions.pop_back();
      Look(region, regions);
    }
    return std::move(found_);
  }

 private:
  using Bits = typename K::Bits;

  size_t size() const { return samples_.size() / sizeof(Bits); }
  Part PartAt(size_t first, size_t end) const {
    return {samples_.data() + first * sizeof(Bits), end - first};
  }

  // The indices of the ranks in a region.
  std::pair<size_t, size_t> RanksIn(const Region& region) const {
    const auto first = std::lower_bound(ranks_.begin(), ranks_.end(), region.below);
    const auto end = std::lower_bound(first, ranks_.end(), region.end);
    return {static_cast<size_t>(first - ranks_.begin()), static_cast<size_t>(end - ranks_.begin())};
  }

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
    ForParts(size(), parts_, [&](size_t part, size_t first, size_t end) {
      std::vector<uint64_t> row(buckets.last() + 1);
      for (; first < end; first += cpu::kSamplesMax) {
        const Part piece = PartAt(first, std::min(end, first + cpu::kSamplesMax));
        cpu::CountInto(piece.count, row.size(), row.data(), [&]<typename Counts>(Counts& counts) {
          const auto count = cpu::HasAvx512Typed() ? CountAvx512<K, Counts> : CountPlain<K, Counts>;
          count(piece, buckets, counts);
        });
        for (size_t i = piece.count / kBlock * kBlock; i < piece.count; ++i) {
          ++row[buckets.Of(K::KeyOf(LoadBits<Bits>(piece.samples + i * sizeof(Bits))))];
        }
      }
      rows[part] = std::move(row);
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
    std::vector<std::vector<Bits>> parts(parts_);
    ForParts(size(), parts_, [&](size_t part, size_t first, size_t end) {
      const auto collect = cpu::HasAvx512Typed() ? CollectAvx512<K> : CollectPlain<K>;
      collect(PartAt(first, end), buckets, wanted.data(), parts[part]);
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
    SelectAll(keys.begin(), keys.end(), places);
    auto place = places.begin();
    for (const Region& region : regions) {
      const auto [first, end] = RanksIn(region);
      for (size_t r = first; r < end; ++r) found_[r] = keys[*place++];
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
  if (threads == 0) threads = UsableCores();
  return VisitKeyed(type, [&]<typename K>(K) { return Search<K>(samples, ranks, threads).Run(); });
}

uint64_t BitsOfKey(uint64_t key, SampleType type) {
  return VisitKeyed(type, [&]<typename K>(K) -> uint64_t {
    return K::BitsOf(static_cast<typename K::Bits>(key));
  });
}

}  // namespace histogram::internal
