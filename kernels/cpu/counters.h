// Helpers of code that reads typed samples. Above all the counters of a kernel: tables of u32 that
// are added to a row of u64 at the end, or the row itself. One thread owns them.
//
// Consecutive samples go to different tables, because increments of one counter wait for each
// other.
#ifndef HISTOGRAM_KERNELS_CPU_COUNTERS_H_
#define HISTOGRAM_KERNELS_CPU_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/plan_data.h"
#include "kernels/sample.h"
#include "kernels/slot.h"
#include "kernels/workload.h"

namespace histogram::cpu {

// The most samples that are counted at a time: a kernel's counters are u32.
inline constexpr size_t kSamplesMax = size_t{1} << 31;

// Prefetches the samples 2 KiB after the block. If tables miss the first-level cache, the processor
// does not detect that samples are read in order. A hint: the address may lie outside the samples,
// so it is a number, not a pointer. Counting f32 into 65,536 bins takes 0.8 to 0.9 G samples/s
// without it and 2.4 to 2.6 with it (Zen 5, 2026-11-24).
template <size_t kBlockBytes>
inline void FetchAhead(const std::byte* block) {
  constexpr size_t kAheadBytes = 2048, kLineBytes = 64;
  const auto address = reinterpret_cast<uintptr_t>(block) + kAheadBytes;
  for (size_t i = 0; i < kBlockBytes; i += kLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + i));
  }
}

class Counters {
 public:
  // On constant samples four count three times as fast as one. On normal ones into 4,096 bins and
  // more one was faster in one run and slower in another (Zen 5, 2026-11-24).
  static constexpr size_t kTables = 4;

  // Tables of `slots` counters in thread-local memory. REQUIRES: the thread has no other Counters.
  explicit Counters(size_t slots) : slots_(slots), stride_((slots + 15) / 16 * 16) {
    Memory().assign(stride_ * kTables, 0);
    for (size_t t = 0; t < kTables; ++t) tables_[t] = Memory().data() + t * stride_;
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters() {
    if (Memory().size() > kKeptMax) std::vector<uint32_t>().swap(Memory());
  }

  // REQUIRES: kCount is a multiple of kTables; each index is below `slots`.
  template <size_t kCount>
  void AddAll(const uint32_t* indices) {
    uint32_t* const t0 = tables_[0];
    uint32_t* const t1 = tables_[1];
    uint32_t* const t2 = tables_[2];
    uint32_t* const t3 = tables_[3];
#pragma GCC unroll 16
    for (size_t i = 0; i < kCount; i += kTables) {
      ++t0[indices[i]];
      ++t1[indices[i + 1]];
      ++t2[indices[i + 2]];
      ++t3[indices[i + 3]];
    }
  }

  void AddTo(uint64_t* row) const {
    for (size_t s = 0; s < slots_; ++s) {
      row[s] += uint64_t{tables_[0][s]} + tables_[1][s] + tables_[2][s] + tables_[3][s];
    }
  }

 private:
  // Of u32; more would stay with each thread for good. Not measured apart.
  static constexpr size_t kKeptMax = size_t{1} << 20;

  static std::vector<uint32_t>& Memory() {
    static thread_local std::vector<uint32_t> memory;
    return memory;
  }

  const size_t slots_, stride_;
  uint32_t* tables_[kTables];
};

// Counts into a row: for few samples, and for more bins than a cache can hold as tables.
class RowCounters {
 public:
  explicit RowCounters(uint64_t* row) : row_(row) {}

  // REQUIRES: each index is that of a counter of the row.
  template <size_t kCount>
  void AddAll(const uint32_t* indices) {
    for (size_t i = 0; i < kCount; ++i) ++row_[indices[i]];
  }

 private:
  uint64_t* const row_;
};

// Whether tables pay for this many samples. Where they do not, counting into the row takes rows of
// 1,024 f32 in 1,000 bins from 0.5 to 1.8 G samples/s, and 2^20 samples in 300,000 bins from 0.4 to
// 1.9 (Zen 5, 2026-11-24).
inline bool TablesPay(size_t samples, size_t slots) {
  constexpr size_t kSlotsMax = (size_t{1} << 17) + internal::kOutsideSlots;
  return samples >= 2 * slots && slots <= kSlotsMax;
}

// Calls count(counters) with the fastest counters for this many samples. Adds the counts to `row`,
// which has `slots` slots.
template <typename Count>
void CountInto(size_t samples, size_t slots, uint64_t* row, Count&& count) {
  if (TablesPay(samples, slots)) {
    Counters counters(slots);
    count(counters);
    counters.AddTo(row);
  } else {
    RowCounters counters(row);
    count(counters);
  }
}

// Counts samples of type S: blocks of kBlock by count_blocks(samples, blocks, counters), and the
// rest of each fragment one by one. REQUIRES: fragments hold whole samples; `row` has a slot for
// each of `bin_count` bins and those outside.
template <typename S, size_t kBlock, typename CountBlocks>
void CountFragments(const internal::Bins<typename S::Compare>& bins, uint32_t bin_count,
                    std::span<const Fragment> fragments, uint64_t* row,
                    const CountBlocks& count_blocks) {
  using Bits = typename S::Bits;
  CountInto(BytesOf(fragments) / sizeof(Bits), internal::SlotCount(bin_count), row,
            [&](auto& counters) {
              for (const Fragment& fragment : fragments) {
                count_blocks(std::as_bytes(fragment).data(),
                             fragment.size() / sizeof(Bits) / kBlock, counters);
              }
            });
  for (const Fragment& fragment : fragments) {
    const std::byte* const samples = std::as_bytes(fragment).data();
    const size_t count = fragment.size() / sizeof(Bits);
    for (size_t i = count / kBlock * kBlock; i < count; ++i) {
      const auto bits = internal::LoadBits<Bits>(samples + i * sizeof(Bits));
      ++row[internal::SlotOf(bins, bin_count, S::Widen(bits))];
    }
  }
}

// Counts samples of 32 or 64 bits under a plan. counter_for<kMoves, C, Counts>(guess) gives the
// function that counts blocks of kBlock; `kMoves`: the guess moves floats (see internal::Spread).
template <size_t kBlock, typename CounterFor>
void CountByGuess(const internal::PlanData& plan, std::span<const Fragment> fragments,
                  uint64_t* row, const CounterFor& counter_for) {
  std::visit(
      [&]<typename C>(const internal::Bins<C>& bins) {
        const uint32_t bin_count = plan.binning.bin_count();
        CountFragments<internal::PlainSample<C, C>, kBlock>(
            bins, bin_count, fragments, row,
            [&]<typename Counts>(const std::byte* samples, size_t blocks, Counts& counts) {
              auto count = counter_for.template operator()<false, C, Counts>(bins.guess);
              if constexpr (std::is_same_v<C, float>) {
                const bool moves = bins.guess.half_ulp > 0;
                if (moves) count = counter_for.template operator()<true, C, Counts>(bins.guess);
              }
              count(bins, bin_count, samples, blocks, counts);
            });
      },
      plan.bins);
}

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_COUNTERS_H_
