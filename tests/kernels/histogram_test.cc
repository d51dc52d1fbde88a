// The library's front door.
#include <histogram/histogram.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/registry.h"
#include "kernels/reference.h"
#include "tests/kernels/payloads.h"

namespace histogram {
namespace {

TEST(CountTest, CountsLetters) {
  constexpr std::string_view kText = "hello, world";
  const std::vector<uint8_t> bytes(kText.begin(), kText.end());
  const Histogram histogram = Count(bytes, *Binning::Alphabet('a', 26, 6));
  EXPECT_EQ(histogram.counts, std::vector<uint64_t>({2, 4, 3, 1, 0}));
  EXPECT_EQ(histogram.samples, 12U);
  EXPECT_EQ(histogram.ignored, 2U);
}

TEST(CountTest, NamesItsKernel) {
  EXPECT_EQ(KernelName(0), cpu::Kernels()[0].name);
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{1} << 30}) {
    const cpu::CpuKernel* kernel = cpu::FindKernel(KernelName(size));
    ASSERT_NE(kernel, nullptr);
    EXPECT_TRUE(kernel->supported());
    EXPECT_LE(kernel->bytes_min, size);
  }
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
