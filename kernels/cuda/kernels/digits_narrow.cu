// Between two rounds over digits of samples (digits.cuh).
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/digits.cuh"

namespace histogram::cuda::digits {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kSegment = 256;  // digits that a warp sums up
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
      for (uint32_t r = 0; r < args.rank_count; ++r) {
        old.prefix_of[r] = 0;
        old.rest[r] = args.ranks[r];
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
  if (warp < args.rank_count) {
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
    *args.nans =
        args.order == internal::Ordered::kFloat ? args.workspace->counts[(1U << bits) / 2 - 1] : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    now.prefixes = 0;
    for (uint32_t r = 0; r < args.rank_count; ++r) {
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
  if (threadIdx.x < args.rank_count) {
    const uint32_t r = threadIdx.x;
    if (last) {
      args.found[r] = now.prefix[now.prefix_of[r]];
    } else {
      level[(old.prefix_of[r] << bits) + digit_of[r]] = static_cast<uint8_t>(now.prefix_of[r] + 1);
    }
  }
  if (threadIdx.x == 0 && !last) args.workspace->state = now;
}

}  // namespace

absl::Status EnqueueNarrowing(const Narrowing& narrowing, cudaStream_t stream) {
  NarrowKernel<<<1, kThreads, 0, stream>>>(narrowing);
  return LaunchStatus("digits");
}

}  // namespace histogram::cuda::digits
