// Counting rows, against counting each of them alone.
#include "kernels/rows.h"

#include <histogram/rows.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/payloads.h"

namespace histogram {
namespace {

using Kind = RowCut::Kind;
using Rows = std::vector<std::vector<uint64_t>>;

std::vector<std::byte> Floats(size_t count) {
  testing::Random random(count);
  std::vector<float> floats(count);
  for (float& x : floats) x = static_cast<float>(random.Unit() * 12 - 6);
  std::vector<std::byte> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

std::vector<uint64_t> CountersOf(const Histogram& h) {
  std::vector<uint64_t> counters = h.counts;
  counters.insert(counters.end(), {h.below, h.above, h.nan});
  return counters;
}

// The counters of each row as CountRows tells them, which calls once for each.
template <typename Count>
Rows Counted(size_t rows, const Count& count) {
  Rows found(rows);
  std::atomic<size_t> calls = 0;
  count([&](const CountedRow& row) {
    found[row.row].assign(row.counters.begin(), row.counters.end());
    ++calls;
  });
  EXPECT_EQ(calls, rows);
  return found;
}

std::vector<RowCut> Cuts() {
  return {{},
          {.channels = 3},
          {.channels = 700},
          {.kind = Kind::kWindows, .window = 1000},
          {.channels = 2, .kind = Kind::kWindows, .window = 999},
          {.kind = Kind::kWindows, .window = 5000, .step = 777},
          {.channels = 2, .kind = Kind::kWindows, .window = 100'000'000},
          {.channels = 4, .kind = Kind::kLengths, .lengths = {100'000, 0, 7, 424'993}}};
}

TEST(RowsTest, EachRowIsCountedAsAlone) {
  const std::vector<std::byte> samples = Floats(2'100'000);
  const Plan plan = *Plan::Make(*Binning::Even(50, -4, 4), SampleType::kF32);
  for (const RowCut& cut : Cuts()) {
    Rows expected;
    ForEachRow(cut, samples, sizeof(float), [&](uint64_t, std::span<const std::byte> its) {
      expected.push_back(CountersOf(Count(its, plan)));
    });
    for (const uint32_t threads : {1U, 4U, 0U}) {
      EXPECT_EQ(expected,
                Counted(expected.size(),
                        [&](const TakeRow& take) { CountRows(samples, plan, cut, threads, take); }))
          << cut.channels << " channels, window " << cut.window << ", " << threads << " threads";
    }
  }
}

TEST(RowsTest, EachRowHasItsOwnRange) {
  const std::vector<std::byte> samples = Floats(2'100'000);
  const auto plan_over = [](const std::optional<Extent>& extent) {
    return *Plan::Direct(*Binning::Even(20, extent->least, extent->greatest), SampleType::kF32);
  };
  for (const RowCut& cut : Cuts()) {
    if (cut.kind == Kind::kLengths) continue;  // an empty row has no range
    Rows expected;
    ForEachRow(cut, samples, sizeof(float), [&](uint64_t, std::span<const std::byte> its) {
      expected.push_back(CountersOf(Count(its, plan_over(FindExtent(its, SampleType::kF32)))));
    });
    const PlanOfRow plan_of = [&](uint64_t, const std::optional<Extent>& extent, uint64_t) {
      return std::optional(plan_over(extent));
    };
    for (const uint32_t threads : {1U, 4U}) {
      EXPECT_EQ(expected, Counted(expected.size(), [&](const TakeRow& take) {
                  CountRows(samples, SampleType::kF32, 20, plan_of, cut, threads, take);
                }));
    }
  }
}

TEST(RowsTest, RowsWithoutAPlanAreNotCounted) {
  const float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> floats = {1, -0.0F, kInf, kInf, -1, 2, NAN, 1};
  std::vector<std::optional<Extent>> extents(4);
  const PlanOfRow plan_of = [&](uint64_t row, const std::optional<Extent>& extent, uint64_t count) {
    EXPECT_EQ(count, 2U);
    extents[row] = extent;
    return std::optional<Plan>();
  };
  CountRows(std::as_bytes(std::span(floats)), SampleType::kF32, 5, plan_of,
            {.kind = Kind::kWindows, .window = 2}, 1, [](const CountedRow&) { FAIL(); });
  EXPECT_TRUE(extents[0]->finite && !extents[0]->negative_zero);
  EXPECT_FALSE(extents[1].has_value());
  EXPECT_TRUE(extents[2]->finite && extents[2]->least == -1 && extents[2]->greatest == 2);
  EXPECT_FALSE(extents[3]->finite);
}

TEST(RowsTest, TheSignOfTheGreatestZero) {
  const auto negative = [](std::vector<float> x) {
    return FindExtent(std::as_bytes(std::span<const float>(x)), SampleType::kF32)->negative_zero;
  };
  EXPECT_TRUE(negative({-1, 0, -0.0F}));
  EXPECT_FALSE(negative({-1, 0}));
  EXPECT_FALSE(negative({-0.0F, 1}));
  // Of a row that four threads look at, each at a part.
  std::vector<float> zeros(size_t{1} << 20, -0.0F);
  for (const float last : {0.0F, 1.0F}) {
    zeros.back() = last;
    const PlanOfRow plan_of = [&](uint64_t, const std::optional<Extent>& extent, uint64_t) {
      EXPECT_EQ(extent->negative_zero, last == 0);
      return std::optional<Plan>();
    };
    CountRows(std::as_bytes(std::span(zeros)), SampleType::kF32, 1, plan_of, {}, 4, {});
  }
}

}  // namespace
}  // namespace histogram
