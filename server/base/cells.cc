#include "server/base/cells.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <new>

namespace histogram::server {
namespace {

constexpr size_t kLines = 128;  // two lines, because processors fetch them in pairs

}  // namespace

void Cells::Free::operator()(std::atomic<uint64_t>* cells) const {
  ::operator delete (cells, std::align_val_t{kLines});
}

Cells::Cells(size_t cell_count, size_t shard_count) {
  constexpr size_t kOtherThreads = 4;
  if (shard_count == 0) shard_count = 2 * size_t{UsableCores()} + kOtherThreads;
  shard_count = std::bit_ceil(std::clamp<size_t>(shard_count, 1, kShardsMax));
  shards_.resize(shard_count);
  const size_t bytes = (cell_count * sizeof(std::atomic<uint64_t>) + kLines - 1) / kLines * kLines;
  for (Shard& shard : shards_) {
    void* const raw = ::operator new (bytes, std::align_val_t{kLines});
    auto* const cells = static_cast<std::atomic<uint64_t>*>(raw);
    for (size_t i = 0; i < cell_count; ++i) new (cells + i) std::atomic<uint64_t>(0);
    memory_.emplace_back(cells);
    shard.cells_ = cells;
  }
}

uint64_t Cells::Sum(Cell cell, std::memory_order order) const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.cells_[cell].load(order);
  return sum;
}

}  // namespace histogram::server
