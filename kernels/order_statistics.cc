#include "kernels/order_statistics.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/sample.h"

namespace histogram::internal {
namespace {

constexpr int kDigitBits = 16;
// The fewest samples for which a thread pays.
constexpr size_t kThreadSamplesMin = size_t{1} << 18;
// The most samples that are collected at a time: an eighth of all, or this many if that is more.
constexpr uint64_t kCollectedMin = uint64_t{1} << 12;
// The most buckets that are counted at a time. Each takes 512 KiB of counters for each thread.
constexpr size_t kCountedMax = 64;
// The most ranks in a bucket that are selected one by one. For more, the bucket is sorted.
constexpr size_t kSelectedMax = 4;
// Keys that are made at a time: few enough to stay in the first-level cache.
constexpr size_t kBlock = 1024;

enum class Kind : uint8_t { kUnsigned, kSigned, kFloat };

// The key of a sample, and back. `B`: the unsigned integer of the sample's width.
template <typename B, Kind kKind, int kMantissaBits = 0>
struct Keyed {
  using Bits = B;
  static constexpr int kBits = sizeof(B) * 8;
  static constexpr B kSign = static_cast<B>(B{1} << (kBits - 1));

  static B KeyOf(B bits) {
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

// The samples whose keys begin with `prefix`.
struct Bucket {
  uint64_t prefix = 0;
  uint64_t below = 0;  // samples with smaller keys
  uint64_t count = 0;
  std::vector<size_t> ranks = {};  // indices of the ranks in this bucket
};

// The search of one call. In each round the buckets' prefixes are one digit longer.
template <typename K>
class Search {
 public:
  Search(std::span<const std::byte> samples, std::span<const uint64_t> ranks, uint32_t threads)
      : samples_(samples), ranks_(ranks), found_(ranks.size()) {
    const size_t worthwhile = size() / kThreadSamplesMin;
    parts_ = std::clamp<size_t>(worthwhile, 1, std::max(1U, threads));
  }

  std::vector<uint64_t> Run() {
    if (ranks_.empty()) return found_;
    Bucket all{.count = size()};
    all.ranks.resize(ranks_.size());
    for (size_t i = 0; i < ranks_.size(); ++i) all.ranks[i] = i;
    if (size() <= kCollectedMin) {
      std::vector<Bits> keys(size());
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = KeyAt(i);
      SettleAmong(keys, all);
      return std::move(found_);
    }
    std::vector<Bucket> buckets;
    buckets.push_back(std::move(all));
    for (int known = 0; !buckets.empty(); known += kDigitBits) {
      if (known >= K::kBits) {
        for (const Bucket& bucket : buckets) {
          for (const size_t i : bucket.ranks) found_[i] = bucket.prefix;
        }
        break;
      }
      std::vector<Bucket> large =
          known == 0 ? std::move(buckets) : CollectSmall(std::move(buckets), known);
      buckets.clear();
      for (size_t first = 0; first < large.size(); first += kCountedMax) {
        const size_t length = std::min(kCountedMax, large.size() - first);
        CountDigits(std::span(large).subspan(first, length), known, buckets);
      }
    }
    return std::move(found_);
  }

 private:
  using Bits = typename K::Bits;
  static constexpr size_t kNone = SIZE_MAX;

  size_t size() const { return samples_.size() / sizeof(Bits); }
  Bits KeyAt(size_t i) const {
    return K::KeyOf(LoadBits<Bits>(samples_.data() + i * sizeof(Bits)));
  }

  // Finds the bucket of a key by its `known` leading bits. The buckets ascend. REQUIRES: known > 0.
  class Finder {
   public:
    Finder(std::span<const Bucket> buckets, int known) : shift_(K::kBits - known) {
      for (const Bucket& bucket : buckets) prefixes_.push_back(bucket.prefix);
      maybe_.resize(size_t{1} << kTop);
      for (const uint64_t prefix : prefixes_) maybe_[prefix >> (known - kTop)] = true;
    }
    // 0: the key is in no bucket; 1: it may be in one.
    uint8_t Maybe(Bits key) const {
      return maybe_[static_cast<uint64_t>(key) >> (K::kBits - kTop)];
    }
    size_t Find(Bits key) const {
      const uint64_t prefix = static_cast<uint64_t>(key) >> shift_;
      const auto at = std::lower_bound(prefixes_.begin(), prefixes_.end(), prefix);
      if (at == prefixes_.end() || *at != prefix) return kNone;
      return static_cast<size_t>(at - prefixes_.begin());
    }

   private:
    static constexpr int kTop = std::min(kDigitBits, K::kBits);
    int shift_;
    std::vector<uint64_t> prefixes_;
    std::vector<uint8_t> maybe_;  // by leading digit: 1 if the prefix of a bucket begins with it
  };

  // Calls use(key, bucket) for each sample of [first, end) that is in a bucket.
  template <typename Use>
  void ForFound(const Finder& finder, size_t first, size_t end, const Use& use) const {
    std::array<Bits, kBlock> kept;
    for (; first < end; first += kBlock) {
      const size_t stop = std::min(end, first + kBlock);
      size_t count = 0;  // counted without a branch
      for (size_t i = first; i < stop; ++i) {
        const Bits key = KeyAt(i);
        kept[count] = key;
        count += finder.Maybe(key);
      }
      for (size_t i = 0; i < count; ++i) {
        const size_t bucket = finder.Find(kept[i]);
        if (bucket != kNone) use(kept[i], bucket);
      }
    }
  }

  // Finds the samples of the smallest buckets, as far as they may be collected. Returns the other
  // buckets.
  std::vector<Bucket> CollectSmall(std::vector<Bucket> buckets, int known) {
    std::vector<uint64_t> sizes;
    sizes.reserve(buckets.size());
    for (const Bucket& bucket : buckets) sizes.push_back(bucket.count);
    std::sort(sizes.begin(), sizes.end());
    const uint64_t budget = std::max<uint64_t>(kCollectedMin, size() / 8);
    uint64_t total = 0, size_max = 0;
    for (const uint64_t size : sizes) {
      total += size;
      if (total > budget) break;
      size_max = size;
    }
    std::vector<Bucket> small, large;
    total = 0;
    for (Bucket& bucket : buckets) {
      const bool fits = bucket.count <= size_max && total + bucket.count <= budget;
      if (fits) total += bucket.count;
      (fits ? small : large).push_back(std::move(bucket));
    }
    if (small.empty()) return large;
    const Finder finder(small, known);
    std::vector<std::vector<std::vector<Bits>>> kept(parts_);
    ForParts(size(), parts_, [&](size_t part, size_t first, size_t end) {
      std::vector<std::vector<Bits>> mine(small.size());
      ForFound(finder, first, end, [&](Bits key, size_t bucket) { mine[bucket].push_back(key); });
      kept[part] = std::move(mine);
    });
    for (size_t b = 0; b < small.size(); ++b) {
      std::vector<Bits> keys;
      keys.reserve(small[b].count);
      for (auto& part : kept) keys.insert(keys.end(), part[b].begin(), part[b].end());
      assert(keys.size() == small[b].count);
      SettleAmong(keys, small[b]);
    }
    return large;
  }

  // `keys`: all keys of the bucket, in any order.
  void SettleAmong(std::vector<Bits>& keys, const Bucket& bucket) {
    if (bucket.ranks.size() > kSelectedMax) std::sort(keys.begin(), keys.end());
    auto from = keys.begin();  // keys before it are not greater than any behind it
    for (const size_t i : bucket.ranks) {
      const auto at = keys.begin() + static_cast<ptrdiff_t>(ranks_[i] - bucket.below);
      if (bucket.ranks.size() <= kSelectedMax && at >= from) {
        std::nth_element(from, at, keys.end());
        from = at + 1;
      }
      found_[i] = *at;
    }
  }

  // Splits each bucket by its next digit; appends the parts that hold its ranks.
  void CountDigits(std::span<Bucket> buckets, int known, std::vector<Bucket>& into) {
    constexpr int kDigit = std::min(kDigitBits, K::kBits);
    constexpr size_t kDigits = size_t{1} << kDigit;
    const int shift = K::kBits - known - kDigit;
    const auto digit_of = [shift](Bits key) {
      return static_cast<uint64_t>(key) >> shift & (kDigits - 1);
    };
    std::optional<Finder> finder;  // all samples are in the first round's one bucket
    if (known > 0) finder.emplace(buckets, known);
    std::vector<std::vector<uint64_t>> counts(parts_);
    ForParts(size(), parts_, [&](size_t part, size_t first, size_t end) {
      std::vector<uint64_t> mine(buckets.size() * kDigits);
      if (finder.has_value()) {
        ForFound(*finder, first, end,
                 [&](Bits key, size_t bucket) { ++mine[bucket * kDigits + digit_of(key)]; });
      } else {
        for (size_t i = first; i < end; ++i) ++mine[digit_of(KeyAt(i))];
      }
      counts[part] = std::move(mine);
    });
    for (size_t p = 1; p < parts_; ++p) {
      for (size_t i = 0; i < counts[0].size(); ++i) counts[0][i] += counts[p][i];
    }
    for (size_t b = 0; b < buckets.size(); ++b) {
      Narrow(buckets[b], std::span(counts[0]).subspan(b * kDigits, kDigits), kDigit, into);
    }
  }

  // Appends the parts of the bucket that hold its ranks, which ascend. `counts`: by next digit.
  void Narrow(const Bucket& bucket, std::span<const uint64_t> counts, int digit_bits,
              std::vector<Bucket>& into) {
    uint64_t below = bucket.below;
    size_t next = 0;
    for (size_t digit = 0; digit < counts.size() && next < bucket.ranks.size(); ++digit) {
      const uint64_t end = below + counts[digit];
      Bucket inner{
          .prefix = bucket.prefix << digit_bits | digit, .below = below, .count = counts[digit]};
      while (next < bucket.ranks.size() && ranks_[bucket.ranks[next]] < end) {
        inner.ranks.push_back(bucket.ranks[next++]);
      }
      if (!inner.ranks.empty()) into.push_back(std::move(inner));
      below = end;
    }
  }

  std::span<const std::byte> samples_;
  std::span<const uint64_t> ranks_;
  std::vector<uint64_t> found_;
  size_t parts_ = 1;
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
