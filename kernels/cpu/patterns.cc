// Samples of 8 and 16 bits: counts each of the 256 or 65,536 values, and adds each value's count to
// its slot. The time does not depend on the edges.
#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/sample.h"

namespace histogram::cpu {
namespace {

constexpr size_t kPatterns16 = 65536;
// The fewest samples for which a table of all values pays. Fewer are looked up one by one. Rows of
// 10 to 64 bytes into 4 bins take 600 ns each by the table, 90 to 160 without. 65,000 samples of 16
// bits take 60 to 110 us by the table, 40 to 170 without, as they spread (Xeon, e19685d4).
constexpr size_t kTableSamplesMin8 = 384, kTableSamplesMin16 = kPatterns16;

// The table indices of four values of 16 bits. They spread values that lie a multiple of 256 apart,
// such as edges, which would otherwise share a few sets of the first-level cache.
constexpr uint64_t PlacesOf(uint64_t four) { return four ^ (four >> 4 & 0x03F003F003F003F0); }

// One table: its 256 KiB stay in the second-level cache. Four equal samples take one increment,
// because on constant data increments of one counter wait for each other.
void CountValues16(const std::byte* samples, size_t count, uint32_t* table) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    FetchAhead<16>(samples + i * 2);
    const auto low = internal::LoadBits<uint64_t>(samples + i * 2);
    const auto high = internal::LoadBits<uint64_t>(samples + i * 2 + 8);
    for (const uint64_t four : {PlacesOf(low), PlacesOf(high)}) {
      if (four == std::rotl(four, 16)) {
        table[four & 0xFFFF] += 4;
      } else {
        ++table[four & 0xFFFF];
        ++table[four >> 16 & 0xFFFF];
        ++table[four >> 32 & 0xFFFF];
        ++table[four >> 48];
      }
    }
  }
  for (; i < count; ++i) ++table[PlacesOf(internal::LoadBits<uint16_t>(samples + i * 2))];
}

template <typename Bits>
void LookUp(const internal::PlanData& plan, std::span<const Fragment> fragments, uint64_t* row) {
  for (const Fragment& fragment : fragments) {
    const std::byte* const samples = std::as_bytes(fragment).data();
    for (size_t i = 0; i < fragment.size(); i += sizeof(Bits)) {
      ++row[plan.slot_of_pattern[internal::LoadBits<Bits>(samples + i)]];
    }
  }
}

void CountPatterns16(const internal::PlanData& plan, std::span<const Fragment> fragments,
                     uint64_t* row) {
  if (BytesOf(fragments) / 2 < kTableSamplesMin16) return LookUp<uint16_t>(plan, fragments, row);
  static thread_local std::vector<uint32_t> table(kPatterns16);
  std::fill(table.begin(), table.end(), 0);
  for (const Fragment& fragment : fragments) {
    CountValues16(std::as_bytes(fragment).data(), fragment.size() / 2, table.data());
  }
  // The values of a block lie together in the table, too. They only rise or only fall, and NaN
  // comes last, so the ends tell whether all have one slot. Then they are added up first: additions
  // to one counter wait for each other.
  constexpr size_t kBlock = 16;
  for (size_t block = 0; block < kPatterns16; block += kBlock) {
    const std::span counts = std::span(table).subspan(PlacesOf(block), kBlock);
    const std::span slots = std::span(plan.slot_of_pattern).subspan(block, kBlock);
    if (slots.front() == slots.back()) {
      row[slots.front()] += std::accumulate(counts.begin(), counts.end(), uint64_t{0});
      continue;
    }
    for (size_t i = 0; i < kBlock; ++i) row[slots[i]] += counts[i];
  }
}

}  // namespace

void CountPatterns(const internal::PlanData& plan, std::span<const Fragment> fragments,
                   uint64_t* row) {
  if (SampleBytes(plan.type) == 2) return CountPatterns16(plan, fragments, row);
  const uint64_t bytes = BytesOf(fragments);
  if (bytes < kTableSamplesMin8) return LookUp<uint8_t>(plan, fragments, row);
  static const internal::PlanData& of_bytes = Plan().data();
  ValueCounts values{};
  DefaultKernel(of_bytes, bytes).count(of_bytes, fragments, values.data());
  for (size_t v = 0; v < values.size(); ++v) row[plan.slot_of_pattern[v]] += values[v];
}

}  // namespace histogram::cpu
