// Eight bytes at a time, each byte position into a table of its own: equal neighbours go to
// different tables, so that no increment waits for the one before it. Portable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"

namespace histogram::cpu {
namespace {

constexpr size_t kTables = 8;
// The tables hold 32-bit counts to stay in the first cache; none can overflow within this many
// bytes.
constexpr size_t kFlushBytes = size_t{1} << 31;

using Tables = uint32_t[kTables][kByteValues];

inline void CountWord(uint64_t word, Tables& tables) {
  for (size_t t = 0; t < kTables; ++t) ++tables[t][(word >> (8 * t)) & 0xff];
}

void Flush(Tables& tables, uint64_t* counts) {
  for (size_t v = 0; v < kByteValues; ++v) {
    uint64_t sum = 0;
    for (size_t t = 0; t < kTables; ++t) sum += tables[t][v];
    counts[v] += sum;
  }
  std::memset(tables, 0, sizeof(Tables));
}

void CountPart(const uint8_t* data, size_t size, Tables& tables) {
  size_t i = 0;
  for (; i + 16 <= size; i += 16) {
    uint64_t words[2];
    std::memcpy(words, data + i, sizeof(words));
    CountWord(words[0], tables);
    CountWord(words[1], tables);
  }
  for (; i < size; ++i) ++tables[i % kTables][data[i]];
}

}  // namespace

void CountTables8(absl::Span<const Fragment> fragments, uint64_t* counts) {
  alignas(64) Tables tables = {};
  size_t room = kFlushBytes;  // bytes that may still be counted before a flush
  for (const Fragment& fragment : fragments) {
    const uint8_t* data = fragment.data();
    size_t left = fragment.size();
    while (left > 0) {
      const size_t size = std::min(left, room);
      CountPart(data, size, tables);
      data += size;
      left -= size;
      room -= size;
      if (room == 0) {
        Flush(tables, counts);
        room = kFlushBytes;
      }
    }
  }
  Flush(tables, counts);
}

}  // namespace histogram::cpu
