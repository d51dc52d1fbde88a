// One pass over samples with few marks, which are keys. It counts the samples up to each mark, and
// collects those between some of them. order_statistics.cc includes this file.
//
// Some samples tell where the samples at the ranks lie, and so where to put marks. If they tell
// wrong, the counts show it.
//
// Thread-safe: the functions have no state.
#ifndef HISTOGRAM_KERNELS_ORDER_MARKS_H_
#define HISTOGRAM_KERNELS_ORDER_MARKS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/sample.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HISTOGRAM_MARKS 1
#define HISTOGRAM_MARKS_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,popcnt")))
#define HISTOGRAM_MARKS_INLINE HISTOGRAM_MARKS_AVX512 __attribute__((always_inline)) inline
#endif

namespace histogram::internal {

// A sample is collected if an odd number of the marks that it does not exceed turn.
template <typename Bits>
struct Mark {
  Bits key;
  bool turns;
};

// Each mark takes time for each sample: 8 marks 0.36 ns, 2 marks 0.2 (f32, Zen 4, 2026-11-25). With
// 99 quantiles marks gain nothing on normal samples.
inline constexpr size_t kMarksMax = 32;
// The most samples that are collected, as a share of all. Not measured apart.
inline constexpr double kCollectedShare = 0.4;
// Keys that are made at a time, at most. Not measured apart.
inline constexpr size_t kMarkedBlock = 256;

// What a pass found.
template <typename Bits>
struct Tally {
  Bits* keys = nullptr;  // those collected; there is space for collected_max + kMarkedBlock
  size_t collected_max = 0;
  size_t collected = 0;
  std::array<uint64_t, kMarksMax> up_to = {};  // for each mark, the samples that do not exceed it
};

#if defined(HISTOGRAM_MARKS)

// Vectors of keys of 32 or 64 bits.
template <typename Bits>
struct KeyVector {
  static constexpr bool kShort = sizeof(Bits) == 4;
  using Mask = std::conditional_t<kShort, __mmask16, __mmask8>;
  HISTOGRAM_MARKS_INLINE static __m512i Fill(Bits x) {
    return kShort ? _mm512_set1_epi32(static_cast<int32_t>(x))
                  : _mm512_set1_epi64(static_cast<int64_t>(x));
  }
  HISTOGRAM_MARKS_INLINE static Mask UpTo(__m512i x, __m512i mark) {
    if constexpr (kShort) return _mm512_cmple_epu32_mask(x, mark);
    return static_cast<Mask>(_mm512_cmple_epu64_mask(x, mark));
  }
  HISTOGRAM_MARKS_INLINE static __m512i Increment(__m512i sums, Mask mask) {
    const __m512i less_one = Fill(static_cast<Bits>(-1));
    return kShort ? _mm512_mask_sub_epi32(sums, mask, sums, less_one)
                  : _mm512_mask_sub_epi64(sums, static_cast<__mmask8>(mask), sums, less_one);
  }
  HISTOGRAM_MARKS_INLINE static __m512i Compress(Mask mask, __m512i x) {
    return kShort ? _mm512_maskz_compress_epi32(mask, x)
                  : _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), x);
  }
};

// Sorts by one byte of the keys after another, from the least significant one. No branch depends on
// the keys.
template <typename Bits>
void SortKeys(std::vector<Bits>& keys) {
  std::array<std::array<size_t, 256>, sizeof(Bits)> counts{};
  for (const Bits key : keys) {
    for (size_t d = 0; d < sizeof(Bits); ++d) ++counts[d][key >> 8 * d & 0xFF];
  }
  std::vector<Bits> sorted(keys.size());
  for (size_t d = 0; d < sizeof(Bits); ++d) {
    std::array<size_t, 256>& places = counts[d];
    if (places[keys[0] >> 8 * d & 0xFF] == keys.size()) continue;
    size_t end = 0;
    for (size_t& place : places) end += std::exchange(place, end);
    for (const Bits key : keys) sorted[places[key >> 8 * d & 0xFF]++] = key;
    keys.swap(sorted);
  }
}

// Marks on both sides of each rank, three standard deviations apart from it, so that what lies
// between is collected. Frequent keys are not: each lies between two marks of its own. Empty if
// marks would be too many, or too many samples between them. REQUIRES: `ranks` is not empty.
template <typename K, typename Bits = typename K::Bits>
std::vector<Mark<Bits>> GuessMarks(std::span<const std::byte> samples,
                                   std::span<const uint64_t> ranks) {
  const size_t size = samples.size() / sizeof(Bits);
  // To sort more of them takes longer than to collect fewer samples saves.
  const auto looked_at = static_cast<size_t>(8 * std::sqrt(static_cast<double>(size)));
  std::vector<Bits> keys = {0, std::numeric_limits<Bits>::max()};
  for (size_t i = 0; i < size; i += size / looked_at | 1) {
    keys.push_back(K::KeyOf(LoadBits<Bits>(samples.data() + i * sizeof(Bits))));
  }
  SortKeys(keys);
  const size_t last = keys.size() - 1;
  const size_t run = last / 128 + 1;  // twice as many equal keys are frequent
  std::map<Bits, bool> turns;
  size_t between = 0;
  for (size_t r = 0; r < ranks.size();) {
    size_t begin = last, end = 0;
    for (; r < ranks.size(); ++r) {
      const double share = static_cast<double>(ranks[r]) / static_cast<double>(size);
      const double place = share * static_cast<double>(last);
      const double room = 2 + 3 * std::sqrt(place * (1 - share));
      const auto least = static_cast<size_t>(std::max(0.0, place - room));
      if (end > 0 && least > end) break;
      begin = std::min(begin, least);
      end = std::min(static_cast<size_t>(place + room), last);
    }
    between += end - begin;
    if (keys[begin] > 0) turns[keys[begin] - 1] ^= true;
    turns[keys[end]] ^= true;
    const size_t first = begin - std::min(begin, run);
    for (size_t p = first; p <= end + run && p + run <= last; p += run) {
      const Bits key = keys[p];
      if (key != keys[p + run] || key < keys[begin] || key > keys[end]) continue;
      if (p > first && key == keys[p - run]) continue;  // found before
      if (key > 0) turns[key - 1] ^= true;
      turns[key] ^= true;
      const auto [from, to] = std::equal_range(&keys[begin], &keys[end], key);
      between -= static_cast<size_t>(to - from);
    }
  }
  std::vector<Mark<Bits>> marks;
  if (turns.size() > kMarksMax ||
      static_cast<double>(between) > kCollectedShare * static_cast<double>(last))
    return marks;
  for (const auto& [key, mark_turns] : turns) marks.push_back({key, mark_turns});
  return marks;
}

// Adds samples to the tally. Returns false once more than collected_max are collected; then the
// tally has no meaning. REQUIRES: cpu::HasAvx512Typed(); count <= cpu::kSamplesMax; marks.size() <=
// kMarksMax.
template <typename K, typename Bits = typename K::Bits>
HISTOGRAM_MARKS_AVX512 bool AddToTally(const std::byte* samples, size_t count,
                                       std::span<const Mark<typename K::Bits>> marks,
                                       Tally<typename K::Bits>& tally) {
  using V = KeyVector<Bits>;
  constexpr size_t kVectors = 16;
  constexpr size_t kLanes = sizeof(__m512i) / sizeof(Bits);
  constexpr size_t kBlockKeys = kVectors * kLanes;
  alignas(64) Bits keys[kBlockKeys];
  alignas(64) Bits sums[kMarksMax][kLanes] = {};
  static_assert(kBlockKeys <= kMarkedBlock);
  size_t kept = tally.collected;
  const size_t blocks = count / kBlockKeys;
  for (size_t b = 0; b < blocks; ++b, samples += kBlockKeys * sizeof(Bits)) {
    cpu::FetchAhead<kBlockKeys * sizeof(Bits)>(samples);
    for (size_t i = 0; i < kBlockKeys; ++i) {
      keys[i] = K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits)));
    }
    typename V::Mask collect[kVectors] = {};
    for (size_t m = 0; m < marks.size(); ++m) {
      const __m512i mark = V::Fill(marks[m].key);
      const auto turns = static_cast<typename V::Mask>(-int{marks[m].turns});
      __m512i sum = _mm512_load_si512(sums[m]);
#pragma GCC unroll 16
      for (size_t v = 0; v < kVectors; ++v) {
        const typename V::Mask up_to = V::UpTo(_mm512_load_si512(keys + v * kLanes), mark);
        sum = V::Increment(sum, up_to);
        collect[v] ^= static_cast<typename V::Mask>(up_to & turns);
      }
      _mm512_store_si512(sums[m], sum);
    }
    if (kept > tally.collected_max) return false;
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) {
      _mm512_storeu_si512(tally.keys + kept,
                          V::Compress(collect[v], _mm512_load_si512(keys + v * kLanes)));
      kept += static_cast<size_t>(__builtin_popcount(collect[v]));
    }
  }
  for (size_t m = 0; m < marks.size(); ++m) {
    for (const Bits sum : sums[m]) tally.up_to[m] += sum;
  }
  for (size_t i = 0; i < count % kBlockKeys; ++i) {
    const Bits key = K::KeyOf(LoadBits<Bits>(samples + i * sizeof(Bits)));
    bool collect = false;
    for (size_t m = 0; m < marks.size(); ++m) {
      if (key > marks[m].key) continue;
      ++tally.up_to[m];
      collect ^= marks[m].turns;
    }
    tally.keys[kept] = key;
    kept += size_t{collect};
  }
  tally.collected = kept;
  return kept <= tally.collected_max;
}

#endif

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_ORDER_MARKS_H_
