// A warp takes a piece: all its loads are under way at once, in vectors of 16 aligned bytes. It
// puts them together in shared memory, and writes them as words at the alignment that they get.
#include <algorithm>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/fetch.h"

namespace histogram::cuda {
namespace {

constexpr uint32_t kWarps = 8;  // of a block; not measured apart
constexpr uint32_t kVectors = kHostPieceBytesMax / sizeof(uint4);
constexpr uint32_t kVectorsPerLane = kVectors / 32;
// On an H200 host 32 and 128 carry the same load, from 64 KiB to 1 MiB a payload (1095662).
constexpr uint32_t kBlocksMax = 64;

// One lane reads it over the link: a warp whose lanes all do takes ten times as long.
__device__ HostPiece ReadPiece(const HostPiece* piece, uint32_t lane) {
  static_assert(sizeof(HostPiece) == sizeof(ulonglong2));
  ulonglong2 words{};
  if (lane == 0) words = *reinterpret_cast<const ulonglong2*>(piece);
  words.x = __shfl_sync(~0U, words.x, 0);
  words.y = __shfl_sync(~0U, words.y, 0);
  HostPiece read;
  memcpy(&read, &words, sizeof(read));
  return read;
}

__global__ void __launch_bounds__(kWarps * 32)
    Fetch(const HostPiece* __restrict__ pieces, uint32_t count, uint8_t* to) {
  // The vector behind the last is read as part of a word, and not used.
  __shared__ uint4 stage[kWarps][kVectors + 1];
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint4* const vectors = stage[warp];
  const auto* const bytes = reinterpret_cast<const uint8_t*>(vectors);
  const auto* const words = reinterpret_cast<const uint32_t*>(vectors);
  for (uint32_t i = blockIdx.x * kWarps + warp; i < count; i += gridDim.x * kWarps) {
    const HostPiece piece = ReadPiece(pieces + i, lane);
    const auto* const from =
        reinterpret_cast<const uint4*>(piece.from / sizeof(uint4) * sizeof(uint4));
    const uint32_t length = piece.bytes, skip = piece.from % sizeof(uint4);
    const uint32_t vector_count = (skip + length + sizeof(uint4) - 1) / sizeof(uint4);
    uint4 loaded[kVectorsPerLane];
#pragma unroll
    for (uint32_t u = 0; u < kVectorsPerLane; ++u) {
      if (u * 32 + lane < vector_count) loaded[u] = from[u * 32 + lane];
    }
#pragma unroll
    for (uint32_t u = 0; u < kVectorsPerLane; ++u) {
      if (u * 32 + lane < vector_count) vectors[u * 32 + lane] = loaded[u];
    }
    __syncwarp();
    uint8_t* const out = to + piece.to;
    // Bytes up to the first word of the copy.
    const uint32_t head = min(length, static_cast<uint32_t>(-piece.to % 4));
    const uint32_t word_count = (length - head) / 4;
    const uint32_t tail = head + word_count * 4;
    if (lane < head) out[lane] = bytes[skip + lane];
    auto* const out_words = reinterpret_cast<uint32_t*>(out + head);
    const uint32_t first = (skip + head) / 4;
    const uint32_t shift = (skip + head) % 4 * 8;
    for (uint32_t k = lane; k < word_count; k += 32) {
      out_words[k] = __funnelshift_r(words[first + k], words[first + k + 1], shift);
    }
    if (tail + lane < length) out[tail + lane] = bytes[skip + tail + lane];
    __syncwarp();
  }
}

}  // namespace

absl::Status EnqueueFetch(const FetchLaunch& launch) {
  const uint32_t blocks = std::min((launch.count + kWarps - 1) / kWarps, kBlocksMax);
  Fetch<<<blocks, kWarps * 32, 0, launch.stream>>>(launch.pieces, launch.count, launch.to);
  return LaunchStatus("fetch");
}

}  // namespace histogram::cuda
