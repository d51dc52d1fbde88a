// Passes over samples with buckets of keys: one counts, one collects. order_statistics.cc includes
// this file.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_ORDER_BUCKETS_H_
#define HISTOGRAM_KERNELS_ORDER_BUCKETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/typed.h"
#include "kernels/sample.h"
#include "kernels/sample_key.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HISTOGRAM_BUCKETS_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#else
#define HISTOGRAM_BUCKETS_AVX512
#endif

namespace histogram::internal {

// Buckets of 2^shift keys each, from `base` to `top`. The first one also holds all lesser keys, the
// last one all greater keys.
template <typename Bits>
struct Buckets {
  static constexpr Bits kKeyMax = std::numeric_limits<Bits>::max();
  Bits base = 0, top = 0;
  int shift = 0;

  HISTOGRAM_KEY_INLINE uint32_t Of(Bits key) const {
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

// Consecutive samples: those of one thread.
struct Part {
  const std::byte* samples;
  size_t count;
};

// Keys that are made at a time.
inline constexpr size_t kBlock = 64;

// Finds the keys of consecutive samples, and the keys' buckets.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_KEY_INLINE void FindBlock(const std::byte* samples, size_t count,
                                    const Buckets<Bits>& buckets, Bits* keys, uint32_t* found) {
  for (size_t i = 0; i < count; ++i) {
    keys[i] = K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits)));
    found[i] = buckets.Of(keys[i]);
  }
}

// Counts the samples of whole blocks.
template <typename K, typename Counts, typename Bits = typename K::Bits>
HISTOGRAM_KEY_INLINE void CountAll(Part part, Buckets<Bits> buckets, Counts& counts) {
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
HISTOGRAM_KEY_INLINE void CollectAll(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                                     std::vector<Bits>& into) {
  Bits keys[2][kBlock];
  uint32_t found[2][kBlock];
  size_t kept = 0;
  const auto keep = [&](size_t which, size_t count) {
    if (into.size() < kept + count) into.resize(2 * kept + kBlock);
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

template <typename K, typename Counts>
void CountPlain(Part part, Buckets<typename K::Bits> buckets, Counts& counts) {
  CountAll<K>(part, buckets, counts);
}
template <typename K, typename Counts>
HISTOGRAM_BUCKETS_AVX512 void CountAvx512(Part part, Buckets<typename K::Bits> buckets,
                                          Counts& counts) {
  CountAll<K>(part, buckets, counts);
}
template <typename K, typename Bits = typename K::Bits>
void CollectPlain(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                  std::vector<Bits>& into) {
  CollectAll<K>(part, buckets, wanted, into);
}
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_BUCKETS_AVX512 void CollectAvx512(Part part, Buckets<Bits> buckets, const uint8_t* wanted,
                                            std::vector<Bits>& into) {
  CollectAll<K>(part, buckets, wanted, into);
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ORDER_BUCKETS_H_
