// Typed samples on the GPU, against the library on the CPU, which typed_test.cc holds against the
// plain answer.
#include <histogram/cuda.h>
#include <histogram/typed.h>

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/gpu.h"

namespace histogram {
namespace {

class CudaTypedTest : public testing::TypedGpuTest {
 protected:
  // `offset`: samples before the first, so that it lies at any multiple of the type's size.
  void ExpectExact(const Binning& binning, const std::vector<std::byte>& bytes, size_t offset = 0,
                   uint64_t at_once = DeviceCounter::kSamplesAtOnce) {
    const Plan plan = *Plan::Make(binning, type());
    Result<DeviceCounter> counter = DeviceCounter::Make(plan, at_once);
    ASSERT_TRUE(counter.ok()) << counter.error().message;
    const uint8_t* const at = Upload(bytes, offset);
    const uint64_t count = bytes.size() / SampleBytes(type());
    const Histogram expected = Count(bytes, plan);
    // In two parts.
    const std::optional<Error> first = counter->Add(at, count / 3, stream());
    ASSERT_FALSE(first.has_value()) << first->message;
    const std::optional<Error> second =
        counter->Add(at + count / 3 * SampleBytes(type()), count - count / 3, stream());
    ASSERT_FALSE(second.has_value()) << second->message;
    const Result<Histogram> counted = counter->Read(stream());
    ASSERT_TRUE(counted.ok()) << counted.error().message;
    ASSERT_EQ(*counted, expected) << NameOf(type()) << ", " << plan.bin_count() << " bins, "
                                  << plan.family();
    // In one call, over what is there.
    for (int call = 0; call < 2; ++call) {
      const Result<Histogram> at_one_go = counter->Count(at, count, stream());
      ASSERT_TRUE(at_one_go.ok()) << at_one_go.error().message;
      ASSERT_EQ(*at_one_go, expected);
    }
    EXPECT_EQ(*counter->Read(stream()), EmptyHistogram(plan));
  }
  void ExpectExact(const std::vector<Binning>& binnings, size_t samples) {
    for (const Binning& binning : binnings) {
      ExpectExact(binning, Samples(binning.ComputeEdges(), samples));
      if (HasFatalFailure()) return;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CudaTypedTest, ::testing::ValuesIn(testing::kAllTypes),
                         testing::TypeName);

TEST_P(CudaTypedTest, OrdinaryBinnings) { ExpectExact(testing::OrdinaryBinnings(), 5000); }

TEST_P(CudaTypedTest, RandomBinnings) { ExpectExact(testing::RandomBinnings(160, random_), 1000); }

TEST_P(CudaTypedTest, OddBinnings) { ExpectExact(testing::OddBinnings(), 1000); }

TEST_P(CudaTypedTest, MoreBinsThanSharedMemoryHolds) {
  ExpectExact({*Binning::Even(49152, 0.0, 1.0), *Binning::Even(65536, -3.0, 70000.0),
               testing::UnevenBinning(65536)},
              300'000);
}

TEST_P(CudaTypedTest, MoreBinsThanAFewTablesHold) {
  for (const uint32_t bins : {200'000U, 300'000U, 1U << 20, 1U << 24}) {
    if (bins == 1U << 24 && type() != SampleType::kF32 && type() != SampleType::kU64) continue;
    const Binning even = *Binning::Even(bins, -3.0, 70000.0);
    const std::vector<std::byte> bytes = Samples(even.ComputeEdges(), 100'000);
    // In one go, and in many.
    ExpectExact(even, bytes, 1);
    ExpectExact(even, bytes, 0, 20'000);
  }
  ExpectExact({testing::UnevenBinning(400'000)}, 100'000);
}

TEST_P(CudaTypedTest, ManyBinsOfConstantAndOfSortedData) {
  const Binning even = *Binning::Even(1U << 19, -3.0, 70000.0);
  std::vector<std::byte> one, sorted;
  testing::AppendOnEdges(type(), {17.0}, 1, random_, one);
  std::vector<std::byte> constant;
  for (int i = 0; i < 100'000; ++i) constant.insert(constant.end(), one.begin(), one.end());
  ExpectExact(even, constant);
  for (int i = 0; i < 100'000; ++i) {
    testing::AppendOnEdges(type(), {i * 0.7 - 100}, 1, random_, sorted);
  }
  ExpectExact(even, sorted, 3);
}

TEST_P(CudaTypedTest, AnyAlignmentAndLength) {
  const Binning binning = *Binning::Even(50, 0.0, 100.0);
  const size_t size = SampleBytes(type());
  const std::vector<std::byte> bytes = Samples(binning.ComputeEdges(), 70000);
  for (size_t offset = 0; offset < 17; offset += 5) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{15}, size_t{16},
                               size_t{1000}, bytes.size() / size}) {
      ExpectExact(binning,
                  std::vector<std::byte>(bytes.begin(),
                                         bytes.begin() + static_cast<ptrdiff_t>(count * size)),
                  offset);
    }
  }
}

// A counter without a plan, over one range after another.
TEST_P(CudaTypedTest, RangesWithoutAPlan) {
  using Edges = DeviceRange::Edges;
  for (const uint32_t bins : {1U, 10U, 256U, 2048U, 16384U}) {
    Result<DeviceCounter> counter = DeviceCounter::MakeEven(type(), bins);
    ASSERT_TRUE(counter.ok()) << counter.error().message;
    std::vector<DeviceRange> ranges = {{0.0, 1.0},   {0.1, 0.8},       {-4.0, 4.0}, {0.0, 65536.0},
                                       {-3.7, 12.1}, {1000.0, 1010.0}, {-1e6, 1e6}, {0.2, 0.7}};
    for (const auto& [lower, upper] : testing::kOddRanges) ranges.push_back({lower, upper});
    for (int round = 0; round < 40; ++round) {
      const double scale = std::exp2(Uniform(-60, 60)), lower = Uniform(-1, 1) * scale;
      ranges.push_back({lower, lower + scale * std::exp2(Uniform(-12, 0))});
    }
    for (DeviceRange range : ranges) {
      for (const Edges edges : {Edges::kDouble, Edges::kRounded, Edges::kFloat}) {
        range.edges = edges;
        if (counter->SetRange(range).has_value()) continue;  // edges too close for it
        const std::vector<double> listed = counter->Edges();
        const Result<Binning> binning = edges == Edges::kDouble
                                            ? Binning::Even(bins, range.lower, range.upper)
                                            : Binning::Edges(listed);
        ASSERT_TRUE(binning.ok()) << binning.error().message;
        ASSERT_EQ(binning->ComputeEdges(), listed);
        const std::vector<std::byte> bytes = Samples(listed, bins > 2048 ? 20'000 : 3000);
        const uint64_t count = bytes.size() / SampleBytes(type());
        const uint8_t* const at = Upload(bytes, 1);
        const Result<Histogram> counted = counter->Count(at, count, stream());
        ASSERT_TRUE(counted.ok()) << counted.error().message;
        ASSERT_EQ(*counted, Count(bytes, *Plan::Make(*binning, type())))
            << NameOf(type()) << ", " << bins << " bins from " << range.lower << " to "
            << range.upper << ", edges " << static_cast<int>(edges);
      }
    }
  }
}

TEST_P(CudaTypedTest, RangesThatNeedAPlanAreRefused) {
  Result<DeviceCounter> counter = DeviceCounter::MakeEven(type(), 10);
  ASSERT_TRUE(counter.ok());
  for (const DeviceRange& range : {DeviceRange{1, 1},
                                   {2, 1},
                                   {0, std::nan("")},
                                   {-1e308, 1e308},
                                   {1, 1 + 1e-15},
                                   {0, 1e39, DeviceRange::Edges::kRounded}}) {
    const std::optional<Error> error = counter->SetRange(range);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->field, "range");
  }
  EXPECT_EQ(DeviceCounter::MakeEven(type(), 0).error().field, "bins");
  EXPECT_EQ(DeviceCounter::MakeEven(type(), 40'000).error().field, "bins");
}

TEST_P(CudaTypedTest, TheExtentOfSamples) {
  Result<DeviceCounter> counter = DeviceCounter::MakeEven(type(), 10);
  ASSERT_TRUE(counter.ok());
  for (const size_t count : {1, 2, 17, 1000, 300'000}) {
    for (const bool any_bits : {false, true}) {
      std::vector<std::byte> bytes;
      if (any_bits) {
        testing::AppendRandomBits(type(), count, random_, bytes);
      } else {
        testing::AppendWithin(type(), {-20, 100}, count, random_, bytes);
      }
      double least = INFINITY, greatest = -INFINITY;
      bool nan = false;
      internal::VisitSample(type(), [&]<typename S>(S) {
        for (size_t i = 0; i < bytes.size(); i += sizeof(typename S::Bits)) {
          const auto x =
              static_cast<double>(S::Widen(internal::LoadBits<typename S::Bits>(&bytes[i])));
          least = std::fmin(least, x);
          greatest = std::fmax(greatest, x);
          nan = nan || std::isnan(x);
        }
      });
      for (const size_t offset : {0, 3}) {
        const Result<DeviceExtent> found =
            counter->FindExtent(Upload(bytes, offset), count, stream());
        ASSERT_TRUE(found.ok()) << found.error().message;
        ASSERT_EQ(std::isnan(found->greatest), nan);
        if (nan) continue;
        ASSERT_EQ(found->greatest, greatest);
        ASSERT_EQ(found->least, least);
      }
    }
  }
}

TEST_P(CudaTypedTest, SamplesBetweenTheirAddressesAreRefused) {
  const size_t size = SampleBytes(type());
  if (size == 1) GTEST_SKIP() << "a byte lies at any address";
  Result<DeviceCounter> counter =
      DeviceCounter::Make(*Plan::Make(*Binning::Even(10, 0.0, 1.0), type()));
  ASSERT_TRUE(counter.ok());
  const std::optional<Error> error = counter->Add(samples_.get(1), 1, stream());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "samples");
}

}  // namespace
}  // namespace histogram
