// What the two kernels of a digit search share (digits.h): the lengths of digits, the workspace.
//
// Counting knows no order: a digit is a number of bits as they lie in memory. The order of a
// type's digits is looked at between the rounds only, by one block.
//
// A prefix is a row of digits with which the sample at some rank begins. It has a number, and a
// level of tables names, by the number of the prefix before and the next digit, the number of the
// longer one plus 1, or 0: most samples leave after the first look.
#ifndef HISTOGRAM_CUDA_KERNELS_DIGITS_CUH_
#define HISTOGRAM_CUDA_KERNELS_DIGITS_CUH_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/kernels/digits.h"
#include "kernels/sample_key.h"

namespace histogram::cuda::digits {

inline constexpr uint32_t kRoundsMax = 6;

// How long the digits are. The first one holds sign and exponent and one bit more, so that no other
// sample shares that of NaN.
__host__ __device__ constexpr uint32_t Rounds(uint32_t sample_bytes) {
  return sample_bytes == 1 ? 1 : sample_bytes == 2 ? 2 : sample_bytes == 4 ? 3 : kRoundsMax;
}
__host__ __device__ constexpr uint32_t DigitBits(uint32_t sample_bytes, uint32_t round) {
  if (sample_bytes == 1) return 8;
  if (round == 0) return 13;
  if (sample_bytes == 2) return 3;
  if (sample_bytes == 4) return round == 1 ? 10 : 9;
  return round == 1 ? 11 : 10;
}
__host__ __device__ constexpr uint32_t BitsBefore(uint32_t sample_bytes, uint32_t round) {
  uint32_t bits = 0;
  for (uint32_t r = 0; r < round; ++r) bits += DigitBits(sample_bytes, r);
  return bits;
}
static_assert(BitsBefore(2, Rounds(2)) == 16 && BitsBefore(4, Rounds(4)) == 32 &&
              BitsBefore(8, Rounds(8)) == 64);
// Counters of a round, and bytes of the level that it makes.
__host__ __device__ constexpr uint32_t Width(uint32_t sample_bytes, uint32_t round) {
  return (round == 0 ? 1 : kRanksMax) << DigitBits(sample_bytes, round);
}
__host__ __device__ constexpr uint32_t LevelsBytes(uint32_t sample_bytes, uint32_t rounds) {
  uint32_t bytes = 0;
  for (uint32_t r = 0; r < rounds; ++r) bytes += Width(sample_bytes, r);
  return bytes;
}

struct State {
  uint32_t prefixes;
  uint64_t prefix[kRanksMax];
  uint32_t prefix_of[kRanksMax];  // of each rank
  uint64_t rest[kRanksMax];       // the rank among the samples of its prefix
};
inline constexpr uint32_t kCountsMax = kRanksMax << 11;
inline constexpr uint32_t kLevelsBytesMax = LevelsBytes(8, kRoundsMax - 1);
struct Workspace {
  unsigned long long counts[kCountsMax];  // zero between rounds
  State state;
  uint8_t levels[kLevelsBytesMax];
};

struct Narrowing {
  Workspace* workspace = nullptr;
  internal::Ordered order = internal::Ordered::kUnsigned;
  uint32_t round = 0, sample_bytes = 0, rank_count = 0;
  uint64_t ranks[kRanksMax] = {};
  uint64_t* found = nullptr;
  uint64_t* nans = nullptr;
};

// Queues what follows a round of counting: one block finds the digit of each rank, numbers the
// longer prefixes and makes the level that names them. After the last round it writes the samples.
absl::Status EnqueueNarrowing(const Narrowing& narrowing, cudaStream_t stream);

}  // namespace histogram::cuda::digits

#endif  // HISTOGRAM_CUDA_KERNELS_DIGITS_CUH_
