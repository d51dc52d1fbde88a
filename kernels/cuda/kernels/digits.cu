// Rounds over digits of samples: the kernel that counts, and the one that follows each round.
//
// Counting knows no order: a digit is a number of bits as they lie in memory. The order of a
// type's digits is looked at between the rounds only, by one block.
//
// A prefix is a row of digits with which the sample at some rank begins. It has a number. A level
// of tables has, for the number of a prefix and the next digit, the number of the longer prefix
// plus 1, or 0. Most samples leave after the first look.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/digits.h"
#include "kernels/cuda/kernels/typed_samples.cuh"
#include "kernels/sample.h"

namespace histogram::cuda {
namespace {

// As typed_table.cu has them. Four quantiles of f32 read at 31 % of the ceiling, and of few values
// at 24 (H200, d727295); other numbers were not measured.
constexpr uint32_t kThreads = 1024;
constexpr uint32_t kLoads = 4;
// Counters of a block are u32.
constexpr uint64_t kBlockSamplesMax = uint64_t{1} << 31;

constexpr uint32_t kRoundsMax = 6;

// How long the digits are. The first one holds sign and exponent and one bit more, so that no other
// sample shares that of NaN. Longer ones save rounds and take more shared memory; not
// measured apart.
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
constexpr uint32_t kCountsMax = kRanksMax << 11;
constexpr uint32_t kLevelsBytesMax = LevelsBytes(8, kRoundsMax - 1);
struct Workspace {
  unsigned long long counts[kCountsMax];  // zero between rounds
  State state;
  uint8_t levels[kLevelsBytesMax];
};

// --- Samples: their bits, of one pattern for NaN and for zero

template <typename B>
struct Integer {
  using Bits = B;
  __device__ static Bits Canonical(Bits bits) { return bits; }
};
template <uint16_t kInfinity>
struct Half {
  using Bits = uint16_t;
  __device__ static Bits Canonical(Bits bits) {
    const uint32_t magnitude = bits & 0x7FFFU;
    if (magnitude > kInfinity) return 0x7FFF;
    return magnitude == 0 ? 0 : bits;
  }
};
struct Single {
  using Bits = uint32_t;
  // A sum that is NaN has the bits 0x7FFFFFFF.
  __device__ static Bits Canonical(Bits bits) {
    return __float_as_uint(__fadd_rn(__uint_as_float(bits), 0.0F));
  }
};
struct Double {
  using Bits = uint64_t;
  __device__ static Bits Canonical(Bits bits) {
    const double sum = __dadd_rn(__longlong_as_double(static_cast<int64_t>(bits)), 0.0);
    return sum == sum ? static_cast<Bits>(__double_as_longlong(sum)) : ~Bits{0} >> 1;
  }
};

// --- Counting

struct Round {
  const void* samples = nullptr;
  uint64_t count = 0;
  uint32_t copies = 1;  // of the table; a power of two, 1 after the first round
  Workspace* workspace = nullptr;
};

template <typename Bits>
__device__ inline uint32_t DigitOf(Bits bits, uint32_t round) {
  constexpr uint32_t kSize = sizeof(Bits);
  const uint32_t width = DigitBits(kSize, round);
  const uint32_t shift = kSize * 8 - BitsBefore(kSize, round) - width;
  return static_cast<uint32_t>(bits >> shift) & ((1U << width) - 1);
}

// The number of a sample's first digit as a prefix, plus 1; 0: no rank's sample begins with it.
template <uint32_t kRound, typename Bits>
__device__ inline uint32_t FirstPrefix(Bits bits, const uint8_t* levels) {
  return kRound == 0 ? 1 : levels[DigitOf(bits, 0)];
}

// Counts the digit of the round where the sample begins with a prefix.
template <uint32_t kRound, typename Bits>
__device__ inline void AddSample(Bits bits, uint32_t prefix, const uint8_t* levels, uint32_t* table,
                                 uint32_t copies) {
  constexpr uint32_t kSize = sizeof(Bits);
  if constexpr (kRound > 0) {
    if (prefix == 0) return;
#pragma unroll
    for (uint32_t level = 1; level < kRound; ++level) {
      prefix = levels[LevelsBytes(kSize, level) + ((prefix - 1) << DigitBits(kSize, level)) +
                      DigitOf(bits, level)];
      if (prefix == 0) return;
    }
  }
  const uint32_t slot = ((prefix - 1) << DigitBits(kSize, kRound)) + DigitOf(bits, kRound);
  const uint32_t word = kRound == 0 ? slot * copies + (threadIdx.x & (copies - 1)) : slot;
  atomicAdd(&table[Permuted(word)], 1U);
}

template <typename S, uint32_t kRound>
__global__ void __launch_bounds__(kThreads, 1) DigitsKernel(const __grid_constant__ Round round) {
  using Bits = typename S::Bits;
  constexpr uint32_t kSize = sizeof(Bits);
  constexpr uint32_t kWidth = Width(kSize, kRound);
  extern __shared__ __align__(16) uint32_t table[];
  auto* const levels = reinterpret_cast<uint8_t*>(table + kWidth * round.copies);
  for (uint32_t i = threadIdx.x; i < kWidth * round.copies; i += kThreads) table[i] = 0;
  if constexpr (kRound > 0) {
    const auto* const from = reinterpret_cast<const uint32_t*>(round.workspace->levels);
    for (uint32_t i = threadIdx.x; i < LevelsBytes(kSize, kRound) / 4; i += kThreads) {
      reinterpret_cast<uint32_t*>(levels)[i] = from[i];
    }
  }
  __syncthreads();
  ForSamples<kThreads, kLoads>(
      static_cast<const Bits*>(round.samples), round.count,
      [&](uint4 vector) {
        constexpr uint32_t kSamples = 16 / kSize;
        Bits bits[kSamples];
        memcpy(bits, &vector, sizeof(bits));
        uint32_t prefixes[kSamples];
#pragma unroll
        for (uint32_t i = 0; i < kSamples; ++i) {
          bits[i] = S::Canonical(bits[i]);
          prefixes[i] = FirstPrefix<kRound>(bits[i], levels);
        }
#pragma unroll
        for (uint32_t i = 0; i < kSamples; ++i) {
          AddSample<kRound>(bits[i], prefixes[i], levels, table, round.copies);
        }
      },
      [&](Bits bits, uint64_t) {
        bits = S::Canonical(bits);
        AddSample<kRound>(bits, FirstPrefix<kRound>(bits, levels), levels, table, round.copies);
      });
  __syncthreads();
  const uint32_t rotation = blockIdx.x * 32 % kWidth;
  for (uint32_t n = threadIdx.x; n < kWidth; n += kThreads) {
    const uint32_t slot = (n + rotation) % kWidth;
    uint32_t sum = 0;
    for (uint32_t c = 0; c < round.copies; ++c) sum += table[Permuted(slot * round.copies + c)];
    if (sum != 0) {
      atomicAdd(&round.workspace->counts[slot], static_cast<unsigned long long>(sum));
    }
  }
}

// --- Between two rounds

struct Narrowing {
  DigitSearch search;
  Workspace* workspace = nullptr;
  internal::Ordered order = internal::Ordered::kUnsigned;
  uint32_t round = 0, sample_bytes = 0;
};

constexpr uint32_t kSegment = 256;  // digits that a warp sums up; not measured apart
constexpr uint32_t kSegmentsMax = (kCountsMax + kSegment - 1) / kSegment;

// The digits of a prefix in ascending order of their samples.
struct Digits {
  const unsigned long long* counts;
  uint32_t count;     // a power of two
  uint32_t flip_low;  // xor'ed with a digit's number in that order, in the lower half
  uint32_t flip_high;

  __device__ uint32_t At(uint32_t order) const {
    return order ^ (order < count / 2 ? flip_low : flip_high);
  }
  __device__ unsigned long long CountAt(uint32_t order) const {
    return order < count ? counts[At(order)] : 0;
  }
};

__device__ inline Digits DigitsOf(const Narrowing& args, const State& state, uint32_t prefix) {
  const uint32_t bits = DigitBits(args.sample_bytes, args.round);
  const uint32_t count = 1U << bits, all = count - 1, sign = count / 2;
  Digits digits = {args.workspace->counts + (prefix << bits), count, 0, 0};
  if (args.round == 0) {
    if (args.order == internal::Ordered::kSigned) digits.flip_low = digits.flip_high = sign;
    if (args.order == internal::Ordered::kFloat) {
      digits.flip_low = all;
      digits.flip_high = sign;
    }
  } else if (args.order == internal::Ordered::kFloat) {
    const bool negative =
        (state.prefix[prefix] >> (BitsBefore(args.sample_bytes, args.round) - 1) & 1) != 0;
    if (negative) digits.flip_low = digits.flip_high = all;
  }
  return digits;
}

// The thread whose counts hold the rank, from which the counts of the threads before it are taken.
__device__ inline int FindThread(unsigned long long own, unsigned long long& rest,
                                 uint32_t thread) {
  unsigned long long sum = own;
#pragma unroll
  for (uint32_t step = 1; step < 32; step *= 2) {
    const unsigned long long other = __shfl_up_sync(kAllThreads, sum, step);
    if (thread >= step) sum += other;
  }
  const int found = __ffs(static_cast<int>(__ballot_sync(kAllThreads, sum > rest))) - 1;
  rest -= __shfl_sync(kAllThreads, sum - own, found);
  return found;
}

// The digit of the sample at a rank, from which the samples of lesser digits are taken. A warp
// together.
__device__ inline uint32_t FindDigit(const Digits& digits, const unsigned long long* segments,
                                     unsigned long long& rest, uint32_t thread) {
  const uint32_t segment_count = (digits.count + kSegment - 1) / kSegment;
  const auto segment = static_cast<uint32_t>(
      FindThread(thread < segment_count ? segments[thread] : 0, rest, thread));
  constexpr uint32_t kEach = kSegment / 32;
  const uint32_t first = segment * kSegment + thread * kEach;
  unsigned long long counts[kEach], own = 0;
#pragma unroll
  for (uint32_t j = 0; j < kEach; ++j) own += counts[j] = digits.CountAt(first + j);
  const int found = FindThread(own, rest, thread);
  uint32_t order = 0;
  if (static_cast<int>(thread) == found) {
    order = first;
    bool passed = true;
#pragma unroll
    for (uint32_t j = 0; j + 1 < kEach; ++j) {
      passed = passed && rest >= counts[j];
      if (!passed) continue;
      rest -= counts[j];
      ++order;
    }
  }
  order = __shfl_sync(kAllThreads, order, found);
  rest = __shfl_sync(kAllThreads, rest, found);
  return digits.At(order);
}

// Finds the digit of each rank, numbers the longer prefixes and makes the level that names them.
__global__ void __launch_bounds__(kThreads, 1)
    NarrowKernel(const __grid_constant__ Narrowing args) {
  __shared__ State old, now;
  __shared__ unsigned long long segments[kSegmentsMax];
  __shared__ uint32_t digit_of[kRanksMax];
  const uint32_t thread = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    if (args.round == 0) {
      old.prefixes = 1;
      old.prefix[0] = 0;
      for (uint32_t r = 0; r < args.search.rank_count; ++r) {
        old.prefix_of[r] = 0;
        old.rest[r] = args.search.ranks[r];
      }
    } else {
      old = args.workspace->state;
    }
  }
  __syncthreads();
  const uint32_t bits = DigitBits(args.sample_bytes, args.round);
  const uint32_t each = ((1U << bits) + kSegment - 1) / kSegment;
  for (uint32_t s = warp; s < old.prefixes * each; s += kThreads / 32) {
    const Digits digits = DigitsOf(args, old, s / each);
    unsigned long long sum = 0;
    for (uint32_t i = thread; i < kSegment; i += 32) sum += digits.CountAt(s % each * kSegment + i);
#pragma unroll
    for (uint32_t step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllThreads, sum, step);
    if (thread == 0) segments[s] = sum;
  }
  __syncthreads();
  if (warp < args.search.rank_count) {
    const uint32_t prefix = old.prefix_of[warp];
    unsigned long long rest = old.rest[warp];
    const uint32_t digit =
        FindDigit(DigitsOf(args, old, prefix), segments + prefix * each, rest, thread);
    if (thread == 0) {
      digit_of[warp] = digit;
      now.rest[warp] = rest;
    }
  }
  if (threadIdx.x == 0 && args.round == 0) {
    *args.search.nans =
        args.order == internal::Ordered::kFloat ? args.workspace->counts[(1U << bits) / 2 - 1] : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    now.prefixes = 0;
    for (uint32_t r = 0; r < args.search.rank_count; ++r) {
      const bool same =
          r > 0 && old.prefix_of[r] == old.prefix_of[r - 1] && digit_of[r] == digit_of[r - 1];
      if (!same) {
        now.prefix[now.prefixes] = old.prefix[old.prefix_of[r]] << bits | digit_of[r];
        ++now.prefixes;
      }
      now.prefix_of[r] = now.prefixes - 1;
    }
  }
  const bool last = args.round + 1 == Rounds(args.sample_bytes);
  uint8_t* const level = args.workspace->levels + LevelsBytes(args.sample_bytes, args.round);
  for (uint32_t i = threadIdx.x; i < old.prefixes << bits; i += kThreads) {
    args.workspace->counts[i] = 0;
    if (!last) level[i] = 0;
  }
  __syncthreads();
  if (threadIdx.x < args.search.rank_count) {
    const uint32_t r = threadIdx.x;
    if (last) {
      args.search.found[r] = now.prefix[now.prefix_of[r]];
    } else {
      level[(old.prefix_of[r] << bits) + digit_of[r]] = static_cast<uint8_t>(now.prefix_of[r] + 1);
    }
  }
  if (threadIdx.x == 0 && !last) args.workspace->state = now;
}

// --- Launching

template <typename S, uint32_t kRound>
absl::Status EnqueueRound(const DigitSearch& search, internal::Ordered order) {
  constexpr uint32_t kSize = sizeof(typename S::Bits);
  constexpr uint32_t kWidth = Width(kSize, kRound);
  auto* const workspace = static_cast<Workspace*>(search.workspace);
  Round round;
  round.workspace = workspace;
  // Neighbouring threads that meet in a digit meet in different words.
  if (kRound == 0) round.copies = 32768 / kWidth < 16 ? 32768 / kWidth : 16;
  const uint32_t shared_bytes = kWidth * round.copies * 4 + LevelsBytes(kSize, kRound);
  auto* const kernel = DigitsKernel<S, kRound>;
  HISTOGRAM_RETURN_IF_ERROR(AllowShared(kernel, shared_bytes));
  const uint64_t most_blocks = search.device->multiprocessors;
  for (uint64_t done = 0; done < search.count; done += round.count) {
    round.samples = static_cast<const typename S::Bits*>(search.samples) + done;
    round.count = std::min(search.count - done, most_blocks * kBlockSamplesMax);
    const uint64_t wanted = round.count * kSize / (kThreads * 16) + 1;
    kernel<<<static_cast<uint32_t>(std::min(wanted, most_blocks)), kThreads, shared_bytes,
             search.stream>>>(round);
    HISTOGRAM_RETURN_IF_ERROR(LaunchStatus("digits"));
  }
  const Narrowing narrowing = {search, workspace, order, kRound, kSize};
  NarrowKernel<<<1, kThreads, 0, search.stream>>>(narrowing);
  HISTOGRAM_RETURN_IF_ERROR(LaunchStatus("digits"));
  if constexpr (kRound + 1 < Rounds(kSize)) {
    return EnqueueRound<S, kRound + 1>(search, order);
  } else {
    return absl::OkStatus();
  }
}

}  // namespace

const uint64_t kDigitWorkspaceBytes = sizeof(Workspace);

absl::Status EnqueueDigitSearch(const DigitSearch& search) {
  using internal::Ordered;
  return internal::VisitKeyed(search.type, [&]<typename B, Ordered kOrdered, int kMantissaBits>(
                                               internal::Keyed<B, kOrdered, kMantissaBits>) {
    if constexpr (kOrdered != Ordered::kFloat) {
      return EnqueueRound<Integer<B>, 0>(search, kOrdered);
    } else if constexpr (sizeof(B) == 2) {
      constexpr uint16_t kInfinity = 0x7FFF >> kMantissaBits << kMantissaBits;
      return EnqueueRound<Half<kInfinity>, 0>(search, kOrdered);
    } else {
      using S = std::conditional_t<sizeof(B) == 4, Single, Double>;
      return EnqueueRound<S, 0>(search, kOrdered);
    }
  });
}

}  // namespace histogram::cuda
