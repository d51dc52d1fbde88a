#include "kernels/cuda/lane/lane_plan.h"

#include <algorithm>

#include "kernels/cuda/lane/lane_layout.h"

namespace histogram::cuda {
namespace {

// What the next chunk may hold when `left` bytes of the batch are in none yet.
uint64_t ChunkBytes(uint64_t batch_bytes, uint64_t left) {
  const uint64_t least = std::clamp(batch_bytes / 4, kChunkBytesMin, kChunkBytesMax);
  const uint64_t bytes = AlignUp(std::clamp(left / 2, least, kChunkBytesMax), kPieceAlignment);
  // A rest that is much smaller than a chunk goes with this one.
  return left < bytes + least / 2 ? UINT64_MAX : bytes;
}

}  // namespace

void CutBatch(absl::Span<const BatchItem> items, uint64_t bytes, bool whole,
              std::vector<Piece>& pieces, std::vector<uint32_t>& chunks) {
  pieces.clear();
  chunks.clear();
  uint64_t left = bytes;
  uint64_t item_offset = 0;
  for (uint32_t item = 0; item < items.size();) {
    const uint64_t chunk_bytes = whole ? UINT64_MAX : ChunkBytes(bytes, left);
    chunks.push_back(static_cast<uint32_t>(pieces.size()));
    for (uint64_t taken = 0; item < items.size() && taken < chunk_bytes;) {
      const uint64_t rest = items[item].bytes - item_offset;
      if (taken > 0 && taken + rest > chunk_bytes) break;
      const uint64_t length = std::min(rest, chunk_bytes);
      pieces.push_back({.item = item, .item_offset = item_offset, .bytes = length});
      taken += AlignUp(length, kPieceAlignment);
      left -= length;
      item_offset += length;
      if (item_offset == items[item].bytes) {
        ++item;
        item_offset = 0;
      }
    }
  }
}

// Where a chunk ends before it is full, the payload that did not fit begins the next: two in a row
// hold more than a chunk's least size, which is a quarter of the batch or kChunkBytesMax.
uint64_t ChunksMax(uint64_t bytes, uint64_t payloads) {
  const uint64_t padding = payloads * kPieceAlignment / kChunkBytesMin;
  return 2 * (4 + bytes / kChunkBytesMax + padding) + 2;
}

// Only a full chunk cuts a payload.
uint64_t PiecesMax(uint64_t bytes, uint64_t payloads) {
  return payloads + ChunksMax(bytes, payloads);
}

}  // namespace histogram::cuda
