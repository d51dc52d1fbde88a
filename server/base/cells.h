// Counters that many threads add to without contention. Each thread adds to a copy ("shard") with
// its own cache lines. A reader sums the copies.
//
// Add is thread-safe, wait-free and allocates nothing. Sum may run at any time. It sees every Add
// that happened before it, and some that happen meanwhile. Values wrap at 2^64: to subtract n, add
// -n.
#ifndef HISTOGRAM_SERVER_BASE_CELLS_H_
#define HISTOGRAM_SERVER_BASE_CELLS_H_

#include <histogram/usable_cores.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace histogram::server {

// A small number for each thread. Threads are numbered from 0 on, in the order in which they first
// ask. Thread-safe.
inline size_t ThreadNumber() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// The index of a cell.
using Cell = uint32_t;

class Cells {
 public:
  // One copy. Several threads may share it.
  class Shard {
   public:
    void Add(Cell cell, uint64_t amount, std::memory_order order = std::memory_order_relaxed) {
      cells_[cell].fetch_add(amount, order);
    }

   private:
    friend class Cells;
    std::atomic<uint64_t>* cells_ = nullptr;
  };

  // Has so many shards that each loop and each lane of a server has one to itself, if their numbers
  // are the defaults.
  explicit Cells(size_t cell_count) {
    constexpr size_t kOtherThreads = 4, kShardsMax = 256;
    const size_t shard_count =
        std::bit_ceil(std::min(2 * size_t{UsableCores()} + kOtherThreads, kShardsMax));
    const size_t lines = (cell_count + kCellsPerLine - 1) / kCellsPerLine;
    memory_ = std::vector<Line>(shard_count * lines);
    shards_.resize(shard_count);
    for (size_t i = 0; i < shard_count; ++i) shards_[i].cells_ = memory_[i * lines].cells;
  }

  // The calling thread's shard.
  Shard& Local() { return shards_[ThreadNumber() & (shards_.size() - 1)]; }
  void Add(Cell cell, uint64_t amount) { Local().Add(cell, amount); }
  uint64_t Sum(Cell cell, std::memory_order order = std::memory_order_relaxed) const {
    uint64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.cells_[cell].load(order);
    return sum;
  }

 private:
  // Two cache lines, because processors fetch them in pairs.
  static constexpr size_t kCellsPerLine = 16;
  struct alignas(128) Line {
    std::atomic<uint64_t> cells[kCellsPerLine];
  };

  std::vector<Line> memory_;   // of one shard after the other
  std::vector<Shard> shards_;  // their number is a power of two
};

// Buckets with the upper bounds first * factor^i, i < bound_count, and one bucket for larger
// values. As in Prometheus, a bucket holds the values <= its bound. The factor is a power of two.
struct BucketLayout {
  uint64_t first;
  int factor_log2;
  int bound_count;

  constexpr uint64_t Bound(int i) const { return first << (factor_log2 * i); }
  // The bucket of a value; bound_count for values above all bounds.
  constexpr int IndexOf(uint64_t value) const {
    if (value <= first) return 0;
    const auto doublings =
        std::bit_width((value - 1) / first);  // least n with value <= first * 2^n
    const int index = (static_cast<int>(doublings) + factor_log2 - 1) / factor_log2;
    return index < bound_count ? index : bound_count;
  }
};

// The cells of histograms with the same buckets, one behind the other: of each its buckets, then
// the sum of its values.
struct HistogramCells {
  BucketLayout layout{1, 1, 1};
  Cell first = 0;

  // The cells of one.
  Cell width() const { return static_cast<Cell>(layout.bound_count) + 2; }
  void Observe(Cells::Shard& shard, size_t histogram, uint64_t value) const {
    const Cell mine = first + static_cast<Cell>(histogram) * width();
    shard.Add(mine + static_cast<Cell>(layout.IndexOf(value)), 1);
    shard.Add(mine + width() - 1, value);
  }
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_CELLS_H_
