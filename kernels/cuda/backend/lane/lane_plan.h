// How a lane cuts a batch into portions, which are gathered, copied and counted in overlap, and
// payloads into pieces, each with a row of counts. Pure functions; no CUDA call. Sizes in bytes.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_PLAN_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/batch.h"

namespace histogram::cuda {

// A portion takes half of the rest, but at least a quarter of the batch, and between these sizes.
// The last copy cannot begin before everything is gathered, so it should be short. But each copy
// costs some microseconds. On an H200 host this takes a payload of 4 MiB from 380 to 320 us, and a
// least portion of 256 KiB made 1 MiB 10 % slower at one start of four (ab28a46). A greatest
// portion of 32 MiB instead of 16 moves 64 MiB over two lanes at 55.0 GB/s instead of 52.5.
inline constexpr uint64_t kPortionBytesMin = uint64_t{512} << 10;
inline constexpr uint64_t kPortionBytesMax = uint64_t{32} << 20;
// Every piece starts at a multiple of this.
inline constexpr uint64_t kPieceAlignment = 128;

inline constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// A payload, or a part of one that is larger than its portion.
struct Piece {
  uint32_t item;  // of the batch
  uint64_t item_offset;
  uint64_t bytes;
};

// Cuts the batch, in order, and replaces the contents of both vectors: the pieces, and for each
// portion the index of its first piece. No portion is empty. `whole`: all in one portion.
// REQUIRES: items is not empty; bytes is the sum of theirs.
void CutBatch(absl::Span<const BatchItem> items, uint64_t bytes, bool whole,
              std::vector<Piece>& pieces, std::vector<uint32_t>& portions);

// Most portions, and pieces, of a batch of so many bytes and payloads.
uint64_t PortionsMax(uint64_t bytes, uint64_t payloads);
uint64_t PiecesMax(uint64_t bytes, uint64_t payloads);

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_PLAN_H_
