// Rounds over digits of samples (digits.cuh): the kernel that counts, and what queues both.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/kernels/device.cuh"
#include "kernels/cuda/kernels/digits.cuh"
#include "kernels/cuda/kernels/typed_samples.cuh"
#include "kernels/sample_key.h"

namespace histogram::cuda {
namespace digits {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kLoads = 4;
// Counters of a block are u32.
constexpr uint64_t kBlockSamplesMax = uint64_t{1} << 31;

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

// Words whose numbers are multiples of 32 lie in different banks. Its own inverse.
__device__ inline uint32_t Permuted(uint32_t word) { return word ^ ((word >> 5) & 31); }

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
  Narrowing narrowing;
  narrowing.workspace = workspace;
  narrowing.order = order;
  narrowing.round = kRound;
  narrowing.sample_bytes = kSize;
  narrowing.rank_count = search.rank_count;
  std::copy_n(search.ranks, search.rank_count, narrowing.ranks);
  narrowing.found = search.found;
  narrowing.nans = search.nans;
  HISTOGRAM_RETURN_IF_ERROR(EnqueueNarrowing(narrowing, search.stream));
  if constexpr (kRound + 1 < Rounds(kSize)) {
    return EnqueueRound<S, kRound + 1>(search, order);
  } else {
    return absl::OkStatus();
  }
}

}  // namespace
}  // namespace digits

const uint64_t kDigitWorkspaceBytes = sizeof(digits::Workspace);

absl::Status EnqueueDigitSearch(const DigitSearch& search) {
  using internal::Ordered;
  return internal::VisitKeyed(search.type, [&]<typename B, Ordered kOrdered, int kMantissaBits>(
                                               internal::Keyed<B, kOrdered, kMantissaBits>) {
    if constexpr (kOrdered != Ordered::kFloat) {
      return digits::EnqueueRound<digits::Integer<B>, 0>(search, kOrdered);
    } else if constexpr (sizeof(B) == 2) {
      constexpr uint16_t kInfinity = 0x7FFF >> kMantissaBits << kMantissaBits;
      return digits::EnqueueRound<digits::Half<kInfinity>, 0>(search, kOrdered);
    } else {
      using S = std::conditional_t<sizeof(B) == 4, digits::Single, digits::Double>;
      return digits::EnqueueRound<S, 0>(search, kOrdered);
    }
  });
}

}  // namespace histogram::cuda
