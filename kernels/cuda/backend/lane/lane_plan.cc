#include "kernels/cuda/backend/lane/lane_plan.h"

#include <algorithm>

namespace histogram::cuda {
namespace {

// What the next portion may hold when `left` bytes of the batch are in none yet.
uint64_t PortionBytes(uint64_t batch_bytes, uint64_t left) {
  const uint64_t least = std::clamp(batch_bytes / 4, kPortionBytesMin, kPortionBytesMax);
  const uint64_t bytes = AlignUp(std::clamp(left / 2, least, kPortionBytesMax), kPieceAlignment);
  // A rest that is much smaller than a portion goes with this one.
  return left < bytes + least / 2 ? UINT64_MAX : bytes;
}

}  // namespace

void CutBatch(absl::Span<const BatchItem> items, uint64_t bytes, bool whole,
              std::vector<Piece>& pieces, std::vector<uint32_t>& portions) {
  pieces.clear();
  portions.clear();
  uint64_t left = bytes;
  uint64_t item_offset = 0;
  for (uint32_t item = 0; item < items.size();) {
    const uint64_t portion_bytes = whole ? UINT64_MAX : PortionBytes(bytes, left);
    portions.push_back(static_cast<uint32_t>(pieces.size()));
    for (uint64_t taken = 0; item < items.size() && taken < portion_bytes;) {
      const uint64_t rest = items[item].bytes - item_offset;
      if (taken > 0 && taken + rest > portion_bytes) break;
      const uint64_t length = std::min(rest, portion_bytes);
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

// Where a portion ends before it is full, the payload that did not fit begins the next: two in a
// row hold more than a portion's least size, which is a quarter of the batch or kPortionBytesMax.
uint64_t PortionsMax(uint64_t bytes, uint64_t payloads) {
  const uint64_t padding = payloads * kPieceAlignment / kPortionBytesMin;
  return 2 * (4 + bytes / kPortionBytesMax + padding) + 2;
}

// Only a full portion cuts a payload.
uint64_t PiecesMax(uint64_t bytes, uint64_t payloads) {
  return payloads + PortionsMax(bytes, payloads);
}

}  // namespace histogram::cuda
