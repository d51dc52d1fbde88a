// Rows of typed samples on the GPU, against the library on the CPU.
#include <histogram/cuda.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/rows.h"
#include "tests/cuda/gpu.h"

namespace histogram {
namespace {

class CudaRowsTest : public testing::TypedGpuTest {
 protected:
  static double EntropyOf(const Histogram& row) {
    double total = 0, entropy = 0;
    for (const uint64_t count : row.counts) total += static_cast<double>(count);
    for (const uint64_t count : row.counts) {
      const double share = static_cast<double>(count) / total;
      if (count > 0) entropy -= share * std::log2(share);
    }
    return entropy;
  }

  static RowCut ToRowCut(const DeviceRowCut& cut) {
    RowCut rows;
    rows.channels = cut.channels;
    rows.window = cut.window;
    rows.step = cut.step;
    rows.lengths = cut.lengths;
    if (cut.window > 0) rows.kind = RowCut::Kind::kWindows;
    if (!cut.lengths.empty()) rows.kind = RowCut::Kind::kLengths;
    return rows;
  }

  // Counts all but the last `left_out` samples with counters made for all.
  void ExpectExact(const Binning& binning, const DeviceRowCut& cut, std::vector<std::byte> bytes,
                   size_t offset = 0, uint64_t left_out = 0) {
    const Plan plan = *Plan::Make(binning, type());
    const uint64_t count = bytes.size() / SampleBytes(type());
    const uint8_t* const at = Upload(bytes, offset);
    bytes.resize((count - left_out) * SampleBytes(type()));
    std::vector<Histogram> expected;
    ForEachRow(ToRowCut(cut), bytes, SampleBytes(type()),
               [&](uint64_t, std::span<const std::byte> row) {
                 expected.push_back(histogram::Count(row, plan));
               });
    Result<DeviceRows> counts = DeviceRows::Make(plan, cut, count);
    ASSERT_TRUE(counts.ok()) << counts.error().message;
    Result<DeviceRows> entropies = DeviceRows::Make(plan, cut, count, DeviceRows::Answer::kEntropy);
    ASSERT_TRUE(entropies.ok()) << entropies.error().message;
    for (int call = 0; call < 2; ++call) {
      for (DeviceRows* rows : {&*counts, &*entropies}) {
        const std::optional<Error> error = rows->Count(at, count - left_out, stream());
        ASSERT_FALSE(error.has_value()) << error->message;
        ASSERT_EQ(rows->row_count(), expected.size());
      }
      const Result<std::vector<Histogram>> counted = counts->Read(stream());
      ASSERT_TRUE(counted.ok()) << counted.error().message;
      ASSERT_EQ(*counted, expected) << NameOf(type()) << ", " << plan.bin_count() << " bins, "
                                    << cut.channels << " channels, windows of " << cut.window;
      const Result<std::vector<float>> entropy = entropies->ReadEntropy(stream());
      ASSERT_TRUE(entropy.ok()) << entropy.error().message;
      for (size_t r = 0; r < expected.size(); ++r) {
        ASSERT_NEAR((*entropy)[r], EntropyOf(expected[r]), 1e-5) << "row " << r;
      }
    }
  }

  // For narrow types a bin for each value.
  Binning SomeBinning(uint32_t bins) {
    return *Binning::Even(bins, type() == SampleType::kI8 ? -128.0 : 0.0,
                          type() == SampleType::kI8 ? 128.0 : 256.0);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CudaRowsTest, ::testing::ValuesIn(testing::kAllTypes),
                         testing::TypeName);

TEST_P(CudaRowsTest, Channels) {
  for (const uint32_t channels : {1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    for (const uint32_t bins : {256U, 10U, 5000U}) {
      const Binning binning = SomeBinning(bins);
      for (const size_t pixels : {size_t{0}, size_t{1}, size_t{1001}, size_t{100'003}}) {
        std::vector<std::byte> bytes = Samples(binning.ComputeEdges(), pixels * channels);
        bytes.resize(pixels * channels * SampleBytes(type()));
        ExpectExact(binning, {.channels = channels}, bytes, pixels % 4);
      }
    }
  }
}

TEST_P(CudaRowsTest, Windows) {
  for (const uint32_t bins : {256U, 100U}) {
    const Binning binning = SomeBinning(bins);
    const std::vector<std::byte> bytes = Samples(binning.ComputeEdges(), 60'000);
    for (const uint64_t window : {1U, 100U, 1024U, 2048U, 4096U, 50'000U, 100'000U}) {
      if (window == 1 && bins != 256) continue;
      for (const uint64_t step : {uint64_t{0}, window / 2 + 16, window + 160}) {
        ExpectExact(binning, {.window = window, .step = step}, bytes);
      }
    }
    ExpectExact(binning, {.window = 2048}, bytes, 1);
    ExpectExact(binning, {.window = 2048}, bytes, 0, 5000);
    ExpectExact(binning, {.channels = 3, .window = 1000},
                std::vector<std::byte>(bytes.begin(), bytes.begin() + 45'000));
  }
}

TEST_P(CudaRowsTest, WindowsOfOneValue) {
  const size_t bytes = size_t{300'000} / 8 * 8;
  for (const uint64_t window : {1024U, 2048U, 4096U}) {
    ExpectExact(SomeBinning(256), {.window = window}, std::vector<std::byte>(bytes, std::byte{7}));
  }
}

TEST_P(CudaRowsTest, Lengths) {
  const Binning binning = SomeBinning(256);
  const std::vector<uint64_t> lengths = {0, 1, 5000, 0, 17, 30'000, 3};
  std::vector<std::byte> bytes = Samples(binning.ComputeEdges(), 80'000);
  bytes.resize(35'021 * SampleBytes(type()));
  ExpectExact(binning, {.lengths = lengths}, bytes);
  bytes = Samples(binning.ComputeEdges(), 80'000);
  bytes.resize(size_t{2} * 35'021 * SampleBytes(type()));
  ExpectExact(binning, {.channels = 2, .lengths = lengths}, bytes, 1);
}

// Without a plan: over one range, and each row over its own.
TEST_P(CudaRowsTest, EvenRows) {
  using Edges = DeviceRange::Edges;
  uint32_t most = 30'000;
  while (!DeviceRows::MakeEven(type(), most, {}, 1).ok()) --most;
  for (const auto& [bins, window, count] : {std::tuple(256U, 4096, 60'000),
                                            {10U, 100, 5050},
                                            {1U, 1, 300},
                                            {2000U, 77'000, 200'000},
                                            {most, 90, 180}}) {
    std::vector<std::byte> bytes;
    testing::AppendWithin(type(), {-30, 90}, static_cast<size_t>(count), random_, bytes);
    const uint8_t* const at = Upload(bytes, 3);
    Result<DeviceRows> rows =
        DeviceRows::MakeEven(type(), bins, {.window = static_cast<uint64_t>(window)},
                             static_cast<uint64_t>(count), DeviceRows::Answer::kWideCounts);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    for (const Edges edges : {Edges::kDouble, Edges::kRounded, Edges::kFloat}) {
      for (const bool own : {false, true}) {
        const DeviceRange given = {-3.3, 40.1, edges};
        if (own) rows->SetOwnRanges();
        const bool refused = !own && rows->SetRange(given).has_value();
        ASSERT_FALSE(refused);
        const auto error = rows->Count(at, static_cast<uint64_t>(count), stream());
        ASSERT_FALSE(error.has_value()) << error->message;
        std::vector<DeviceRange> ranges(rows->row_count(), given);
        if (own) ranges = *rows->ReadRanges(stream());
        const Result<std::vector<Histogram>> counted = rows->Read(stream());
        ASSERT_TRUE(counted.ok()) << counted.error().message;
        std::vector<uint64_t> wide(rows->row_count() * (bins + 3));
        ASSERT_EQ(
            cudaMemcpy(wide.data(), rows->device_rows(), wide.size() * 8, cudaMemcpyDeviceToHost),
            cudaSuccess);
        Result<DeviceCounter> one = DeviceCounter::MakeEven(type(), bins);
        ASSERT_TRUE(one.ok());
        for (uint64_t r = 0; r < counted->size(); ++r) {
          const size_t size = static_cast<size_t>(window) * SampleBytes(type());
          const std::span<const std::byte> row =
              std::span(bytes).subspan(r * size, std::min(size, bytes.size() - r * size));
          const bool counts = !std::isnan(ranges[r].lower);
          EXPECT_EQ(counts, !one->SetRange(ranges[r]).has_value());
          Histogram expected = {.counts = std::vector<uint64_t>(bins)};
          if (counts) {
            const Plan plan = *Plan::Make(*Binning::Edges(one->Edges()), type());
            expected = histogram::Count(row, plan);
          }
          if (own && counts) {
            ASSERT_EQ(expected.below + expected.above, 0);
          }
          ASSERT_EQ((*counted)[r], expected) << NameOf(type()) << ", row " << r << ", " << bins
                                             << " bins, " << (own ? "own" : "given");
          for (uint32_t bin = 0; bin < bins; ++bin) {
            ASSERT_EQ(wide[r * (bins + 3) + bin], expected.counts[bin]);
          }
          ASSERT_EQ(wide[r * (bins + 3) + bins], expected.below);
        }
      }
    }
  }
}

TEST_P(CudaRowsTest, WhatMakesNoRowsIsRefused) {
  const Plan plan = *Plan::Make(SomeBinning(10), type());
  const auto field = [&](const DeviceRowCut& cut, uint64_t samples) {
    const Result<DeviceRows> rows = DeviceRows::Make(plan, cut, samples);
    return rows.ok() ? std::string("none") : rows.error().field;
  };
  EXPECT_EQ(field({.channels = 0}, 10), "channels");
  EXPECT_EQ(field({.step = 3}, 10), "step");
  EXPECT_EQ(field({.window = 3, .lengths = {10}}, 10), "lengths");
  EXPECT_EQ(field({.channels = 3}, 10), "channels");
  EXPECT_EQ(field({.lengths = {3, 4}}, 10), "lengths");
  EXPECT_EQ(field({.lengths = {3, 7}}, 10), "none");
  const Plan many = *Plan::Make(*Binning::Even(65536, 0.0, 65536.0), type());
  const Result<DeviceRows> rows = DeviceRows::Make(many, {}, 10);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().field, "plan");
}

TEST_P(CudaRowsTest, MoreSamplesThanItWasMadeForAreRefused) {
  const Plan plan = *Plan::Make(SomeBinning(10), type());
  Result<DeviceRows> rows = DeviceRows::Make(plan, {.window = 8}, 100);
  ASSERT_TRUE(rows.ok());
  const std::optional<Error> error = rows->Count(samples_.get(), 101, stream());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "count");
  EXPECT_EQ(error->limit, 100);
}

}  // namespace
}  // namespace histogram
