#include <histogram/usable_cores.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/cpu/features.h"
#include "kernels/float_mode.h"
#include "kernels/order_statistics.h"
#include "kernels/parallel.h"
#include "kernels/plan_data.h"
#include "kernels/sample.h"

namespace histogram::internal {
namespace {

// The most samples of a row that is sorted into buckets: those of f32 take 256 KiB. Not measured
// apart.
constexpr size_t kRowSamplesMax = size_t{1} << 16;
// The fewest samples for which a thread pays. Not measured apart.
constexpr size_t kThreadSamplesMin = size_t{1} << 14;
// The search in rows, one after the other. One thread owns it.
template <typename V>
class RowSearch {
 public:
  // `narrow`: large buckets are not searched in narrower ones.
  explicit RowSearch(size_t length, bool narrow = false)
      : length_(length),
        narrow_(narrow),
        buckets_log2_(std::clamp(static_cast<int>(std::bit_width(length)) - 1, 6, 11)),
        values_(length + kLanes),
        bucket_of_(length + kLanes),
        kept_(length + 1),
        counts_(size_t{1} << buckets_log2_),
        wanted_(counts_.size()) {}

  // Where the caller puts the values of a row. They are changed.
  V* values() { return values_.data(); }

  // Sets found[r] to the value at each rank. REQUIRES: no value is NaN.
  void Run(size_t count, std::span<const uint64_t> ranks, V* found) {
    if (count <= kSortedMax) return Select(values(), count, ranks, 0, found);
    const auto [least, greatest] = Ends(count);
    if (least == greatest) return static_cast<void>(std::fill_n(found, ranks.size(), least));
    FindBuckets(count, least, greatest);
    std::fill(counts_.begin(), counts_.end(), 0);
    for (size_t i = 0; i < count; ++i) ++counts_[bucket_of_[i]];
    const size_t kept = FindParts(ranks);
    if (kept < count / kWideShare) {
      Collect(count);
      SelectAll(kept_.data(), kept_.data() + kept, places_, 0);
      for (size_t r = 0; r < ranks.size(); ++r) found[r] = kept_[places_[r]];
      return;
    }
    CollectByPart(count);
    for (const Part& part : parts_) {
      V* const first = kept_.data() + part.first;
      const auto of_part = ranks.subspan(part.first_rank, part.ranks);
      if (part.count <= kSortedMax || narrow_ || part.count < count / kWideShare) {
        Select(first, part.count, of_part, part.below, found + part.first_rank);
      } else {
        Narrow(first, part, of_part, found + part.first_rank);
      }
    }
  }

 private:
  static constexpr size_t kLanes = 16;  // compilers make vectors of them

  std::pair<V, V> Ends(size_t count) {
    std::fill_n(values() + count, kLanes, values_[0]);
    V least[kLanes], greatest[kLanes];
    std::copy_n(values(), kLanes, least);
    std::copy_n(values(), kLanes, greatest);
    for (size_t i = 0; i < count; i += kLanes) {
      const V* const at = values() + i;
      for (size_t k = 0; k < kLanes; ++k) least[k] = at[k] < least[k] ? at[k] : least[k];
      for (size_t k = 0; k < kLanes; ++k) greatest[k] = at[k] > greatest[k] ? at[k] : greatest[k];
    }
    return {*std::min_element(least, least + kLanes),
            *std::max_element(greatest, greatest + kLanes)};
  }

  // The bucket of each value: a number that does not decrease as the value grows. Buckets of floats
  // widen with the distance from zero, but are even near it. So normal samples and samples whose
  // logarithms are normal have few values in each.
  void FindBuckets(size_t count, V least, V greatest) {
    if constexpr (std::is_floating_point_v<V>) {
      // 1,000 normal f32 and three quantiles take as long with 2^-4, longer with less; lognormal
      // ones 0.8 of the time (Xeon, f338bcf0).
      constexpr V kNear = 0x1p-7;
      const V widest = std::max(std::fabs(least), std::fabs(greatest));
      const V knee = widest <= std::numeric_limits<V>::max() ? widest * kNear : V{0};
      const auto key = [knee](V x) HISTOGRAM_INLINE { return CellKey(x, knee); };
      const auto distance = [key, from = key(least)](V x)
                                HISTOGRAM_INLINE { return key(x) - from; };
      cpu::CallFast([&]() HISTOGRAM_INLINE { FindBucketsBy(count, greatest, distance); });
    } else {
      using Bits = std::make_unsigned_t<V>;
      FindBucketsBy(count, greatest, [from = static_cast<Bits>(least)](V x) HISTOGRAM_INLINE {
        return static_cast<Bits>(static_cast<Bits>(x) - from);
      });
    }
  }

  // By the leading bits of the distances from the least value.
  template <typename Distance>
  HISTOGRAM_INLINE inline void FindBucketsBy(size_t count, V greatest, const Distance& distance) {
    const int shift =
        std::max(0, static_cast<int>(std::bit_width(distance(greatest))) - buckets_log2_);
    const size_t rounded = (count + kLanes - 1) / kLanes * kLanes;
    const V* const values = values_.data();
    int32_t* const buckets = bucket_of_.data();
    for (size_t i = 0; i < rounded; ++i) {
      buckets[i] = static_cast<int32_t>(distance(values[i]) >> shift);
    }
  }

  // A bucket with a rank: its values in kept_, and its ranks.
  struct Part {
    size_t bucket, first, count, first_rank, ranks = 0;
    uint64_t below;  // values of lesser buckets
  };

  // Sets parts_, `wanted_` to 1 for their buckets, and `places_` to the ranks' places among all
  // values of the parts. Returns the number of these values.
  size_t FindParts(std::span<const uint64_t> ranks) {
    parts_.clear();
    places_.resize(ranks.size());
    std::fill(wanted_.begin(), wanted_.end(), 0);
    uint64_t below = 0;
    size_t kept = 0, r = 0;
    for (size_t b = 0; r < ranks.size(); below += counts_[b++]) {
      const uint64_t end = below + counts_[b];
      if (ranks[r] >= end) continue;
      wanted_[b] = 1;
      Part part{.bucket = b, .first = kept, .count = counts_[b], .first_rank = r, .below = below};
      for (; r < ranks.size() && ranks[r] < end; ++r) places_[r] = kept + ranks[r] - below;
      part.ranks = r - part.first_rank;
      parts_.push_back(part);
      kept += part.count;
    }
    return kept;
  }

  // Puts the values of all parts into kept_.
  void Collect(size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {  // no branch depends on the samples
      kept_[kept] = values_[i];
      kept += wanted_[bucket_of_[i]];
    }
  }

  // The same, part by part.
  void CollectByPart(size_t count) {
    std::fill(counts_.begin(), counts_.end(), static_cast<uint32_t>(count));
    for (const Part& part : parts_) counts_[part.bucket] = static_cast<uint32_t>(part.first);
    for (size_t i = 0; i < count; ++i) {
      const int32_t b = bucket_of_[i];
      kept_[counts_[b]] = values_[i];
      counts_[b] += wanted_[b];
    }
  }

  void Select(V* first, size_t count, std::span<const uint64_t> ranks, uint64_t below, V* found) {
    SelectAll(first, first + count, ranks, below);
    for (size_t r = 0; r < ranks.size(); ++r) found[r] = first[ranks[r] - below];
  }

  // Searches a bucket that holds many of the values in narrower buckets.
  void Narrow(const V* first, const Part& part, std::span<const uint64_t> ranks, V* found) {
    if (deeper_ == nullptr) deeper_ = std::make_unique<RowSearch>(length_, /*narrow=*/true);
    std::copy_n(first, part.count, deeper_->values());
    deeper_ranks_.assign(ranks.begin(), ranks.end());
    for (uint64_t& rank : deeper_ranks_) rank -= part.below;
    deeper_->Run(part.count, deeper_ranks_, found);
  }

  static constexpr size_t kWideShare = 8;  // not measured apart

  const size_t length_;
  const bool narrow_;
  const int buckets_log2_;
  std::vector<V> values_;
  std::vector<int32_t> bucket_of_;
  std::vector<V> kept_;
  std::vector<uint32_t> counts_;
  std::vector<uint8_t> wanted_;
  std::vector<Part> parts_;
  std::vector<uint64_t> places_, deeper_ranks_;
  std::unique_ptr<RowSearch> deeper_;
};

// Copies a row to `to`, with 0.0 for -0.0, and narrow floats as their keys. Returns whether it has
// a NaN.
template <typename S>
bool TakeRow(const std::byte* row, size_t length, typename S::Bits* to) {
  using V = typename S::Bits;
  if constexpr (kIsNarrowFloat<S>) {
    using K = decltype(KeyedFor<S>());
    V greatest = 0;
    for (size_t i = 0; i < length; ++i) {
      to[i] = K::KeyOf(LoadBits<V>(row + i * sizeof(V)));
      greatest = std::max(greatest, to[i]);
    }
    return greatest == std::numeric_limits<V>::max();  // the key of NaN
  }
  std::memcpy(to, row, length * sizeof(V));
  uint32_t nans = 0;
  if constexpr (std::is_floating_point_v<V>) {
    for (size_t i = 0; i < length; ++i) {
      to[i] += V{0};
      nans += static_cast<uint32_t>(to[i] != to[i]);  // NOLINT(misc-redundant-expression)
    }
  }
  return nans > 0;
}

template <typename S>
void SearchRows(const std::byte* samples, size_t length, std::span<const uint64_t> ranks,
                size_t first, size_t end, size_t rows, std::byte* out) {
  using V = typename S::Bits;
  using K = decltype(KeyedFor<S>());
  using Bits = typename K::Bits;
  const FloatMode mode;
  RowSearch<V> search(length);
  std::vector<V> found(ranks.size());
  for (size_t row = first; row < end; ++row) {
    const bool nan = TakeRow<S>(samples + row * length * sizeof(V), length, search.values());
    if (!nan) search.Run(length, ranks, found.data());
    for (size_t r = 0; r < ranks.size(); ++r) {
      Bits bits = K::BitsOf(std::numeric_limits<Bits>::max());  // of NaN
      if constexpr (kIsNarrowFloat<S>) {
        if (!nan) bits = K::BitsOf(found[r]);
      } else if (!nan) {
        bits = std::bit_cast<Bits>(found[r]);
      }
      std::memcpy(out + (r * rows + row) * sizeof(Bits), &bits, sizeof(Bits));
    }
  }
}

void SearchLongRow(std::span<const std::byte> row, SampleType type, std::span<const uint64_t> ranks,
                   uint32_t threads, size_t at, size_t rows, std::byte* out) {
  // The greatest key is that of a NaN, if there is one.
  std::vector<uint64_t> all(ranks.begin(), ranks.end());
  const size_t size = SampleBytes(type);
  all.push_back(row.size() / size - 1);
  const std::vector<uint64_t> keys = KeysAtRanks(row, type, all, threads);
  const uint64_t last = BitsOfKey(keys.back(), type);
  const bool nan = std::isnan(ValueOfBits(last, type));
  for (size_t r = 0; r < ranks.size(); ++r) {
    const uint64_t bits = nan ? last : BitsOfKey(keys[r], type);
    std::memcpy(out + (r * rows + at) * size, &bits, size);
  }
}

}  // namespace

void SamplesAtRanksOfRows(std::span<const std::byte> samples, SampleType type, size_t length,
                          std::span<const uint64_t> ranks, uint32_t threads,
                          std::span<std::byte> out) {
  assert(std::is_sorted(ranks.begin(), ranks.end()));
  const size_t row_bytes = length * SampleBytes(type), rows = samples.size() / row_bytes;
  assert(out.size() == ranks.size() * rows * SampleBytes(type));
  if (threads == 0) threads = UsableCores();
  if (length > (rows == 1 ? kLoneRowSamplesMax : kRowSamplesMax)) {  // searched with all threads
    for (size_t row = 0; row < rows; ++row) {
      SearchLongRow(samples.subspan(row * row_bytes, row_bytes), type, ranks, threads, row, rows,
                    out.data());
    }
    return;
  }
  const size_t parts = std::clamp<size_t>(rows * length / kThreadSamplesMin, 1,
                                          std::min<size_t>(threads, std::max<size_t>(rows, 1)));
  VisitSample(type, [&]<typename S>(S) {
    InParallel(parts, [&](size_t part) {
      SearchRows<S>(samples.data(), length, ranks, rows * part / parts, rows * (part + 1) / parts,
                    rows, out.data());
    });
  });
}

}  // namespace histogram::internal
