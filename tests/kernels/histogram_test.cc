// The library's front door.
#include <histogram/histogram.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/registry.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram {
namespace {

TEST(CountTest, TakesBytesOfAllTypes) {
  const std::string text = "one, two; one, two";
  const std::vector<uint8_t> numbers(text.begin(), text.end());
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(std::byte(c));
  const ValueCounts expected = ReferenceCounts(numbers);
  EXPECT_EQ(CountValues(text), expected);
  EXPECT_EQ(CountValues(text.c_str()), expected);
  EXPECT_EQ(CountValues(numbers), expected);
  EXPECT_EQ(CountValues(bytes), expected);
  const Histogram histogram = Fold(expected, Binning::Identity());
  EXPECT_EQ(Count(text, Binning::Identity()), histogram);
  EXPECT_EQ(Count(numbers, Binning::Identity()), histogram);
  EXPECT_EQ(Count(bytes, Binning::Identity()), histogram);
}

TEST(AddValuesTest, ChunksAddUpToTheWhole) {
  const std::vector<uint8_t> all =
      testing::MakePayload(testing::kDistributions[0], size_t{1} << 17);
  const std::span<const uint8_t> whole(all);
  ValueCounts values{}, rest{};
  AddValues(whole.first(70001), values);
  AddValues(std::as_bytes(whole.subspan(70001, 1000)), values);
  AddValues(std::string_view(reinterpret_cast<const char*>(&all[71001]), 1), rest);
  AddValues(whole.subspan(71002), rest);
  AddValues(rest, values);
  EXPECT_EQ(values, ReferenceCounts(all));
  EXPECT_EQ(Fold(values, Binning::Identity()), Count(all, Binning::Identity()));
}

TEST(CountTest, AgreesWithTheReferenceAcrossKernels) {
  for (const auto distribution : testing::kDistributions) {
    for (size_t size = 0; size <= (1 << 20); size = size * 4 + 1) {
      const std::vector<uint8_t> bytes = testing::MakePayload(distribution, size);
      ASSERT_EQ(CountValues(bytes), ReferenceCounts(bytes)) << size;
      const Binning binning = *Binning::Even(9, 3, 250);
      ASSERT_EQ(Count(bytes, binning), ReferenceHistogram(bytes, binning)) << size;
    }
  }
}

}  // namespace
}  // namespace histogram
