#include "kernels/cuda/backend/lane/streaming_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace histogram::cuda {

#if defined(__x86_64__)
namespace {

constexpr size_t kLineBytes = 64;
// Below it the parts before the first whole line and after the last one are most of it.
constexpr size_t kStreamedBytesMin = 4 * kLineBytes;

// REQUIRES: `to` and `bytes` are multiples of a line.
__attribute__((target("avx2"))) void CopyLines(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLineBytes) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + 32), high);
  }
}

}  // namespace

void StreamingCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (!has_avx2 || bytes < kStreamedBytesMin) {
    std::memcpy(to, from, bytes);
    return;
  }
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kLineBytes;
  const size_t lines = (bytes - head) / kLineBytes * kLineBytes;
  std::memcpy(to, from, head);
  CopyLines(to + head, from + head, lines);
  std::memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

void StreamingFence() { _mm_sfence(); }

#else

void StreamingCopy(uint8_t* to, const uint8_t* from, size_t bytes) { std::memcpy(to, from, bytes); }

void StreamingFence() {}

#endif

void StreamingCopy(uint8_t* to, std::span<const Fragment> fragments, uint64_t at, uint64_t bytes) {
  for (const Fragment& fragment : fragments) {
    const uint64_t skipped = std::min<uint64_t>(at, fragment.size());
    const uint64_t some = std::min<uint64_t>(bytes, fragment.size() - skipped);
    const uint8_t* const from = fragment.data() + skipped;
    if (some > 0 && from != to) StreamingCopy(to, from, some);
    at -= skipped;
    to += some;
    bytes -= some;
    if (bytes == 0) return;
  }
}

}  // namespace histogram::cuda
