#include "server/base/cells.h"

#include <histogram/usable_cores.h>

#include <algorithm>

namespace histogram::server {

Cells::Cells(size_t cell_count, size_t shard_count) {
  constexpr size_t kOtherThreads = 4;
  if (shard_count == 0) shard_count = 2 * size_t{UsableCores()} + kOtherThreads;
  shard_count = std::bit_ceil(std::clamp<size_t>(shard_count, 1, kShardsMax));
  const size_t lines = (cell_count + kCellsPerLine - 1) / kCellsPerLine;
  memory_ = std::vector<Line>(shard_count * lines);
  shards_.resize(shard_count);
  for (size_t i = 0; i < shard_count; ++i) shards_[i].cells_ = memory_[i * lines].cells;
}

uint64_t Cells::Sum(Cell cell, std::memory_order order) const {
  uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.cells_[cell].load(order);
  return sum;
}

}  // namespace histogram::server
