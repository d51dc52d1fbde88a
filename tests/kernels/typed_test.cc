// Typed samples: every kernel that this processor runs, against the plain answer.
#include "kernels/cpu/typed.h"

#include <histogram/typed.h>

#include <cstdlib>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernels/payload.h"
#include "tests/kernels/on_one_core.h"
#include "tests/kernels/typed_samples.h"

namespace histogram {
namespace {

using testing::AppendOnEdges;
using testing::AppendRandomBits;
using testing::AppendWithin;
using testing::kAllTypes;
using testing::kOddRanges;
using testing::PlainHistogram;
using testing::RandomEdges;

// More rounds with HISTOGRAM_TYPED_ROUNDS=100000.
size_t Rounds(size_t rounds) {
  const char* const asked = std::getenv("HISTOGRAM_TYPED_ROUNDS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : rounds;
}

std::string TypeName(const ::testing::TestParamInfo<SampleType>& info) {
  return std::string(NameOf(info.param));
}

class TypedTest : public ::testing::TestWithParam<SampleType> {
 protected:
  SampleType type() const { return GetParam(); }

  // Every kernel's counts, and those of the public functions, equal the plain ones.
  void ExpectExact(const Binning& binning, const std::vector<std::byte>& bytes) {
    const Result<Plan> plan = Plan::Make(binning, type());
    ASSERT_TRUE(plan.ok());
    families_.emplace(plan->family());
    const std::vector<double> edges = binning.ComputeEdges();
    const Histogram expected = PlainHistogram(bytes, type(), edges);
    ExpectExact(*plan, bytes, edges, expected);
    ExpectExact(*Plan::Direct(binning, type()), bytes, edges, expected);
  }
  void ExpectExact(const Plan& plan, const std::vector<std::byte>& bytes,
                   const std::vector<double>& edges, const Histogram& expected) {
    ASSERT_EQ(Count(bytes, plan), expected) << Describe(plan, edges);
    for (const cpu::TypedKernel& kernel : cpu::TypedKernels()) {
      if (!kernel.supported() || !kernel.counts(plan.data())) continue;
      kernels_.emplace(kernel.name);
      std::vector<uint64_t> row(internal::SlotCount(plan.bin_count()), 0);
      kernel.count(plan.data(), InRuns(bytes), row.data());
      const size_t bins = edges.size() - 1;
      ASSERT_EQ(std::vector<uint64_t>(row.begin(), row.begin() + static_cast<ptrdiff_t>(bins)),
                expected.counts)
          << kernel.name << ", " << Describe(plan, edges);
      ASSERT_EQ(row[bins + internal::kBelowSlot], expected.below) << kernel.name;
      ASSERT_EQ(row[bins + internal::kAboveSlot], expected.above) << kernel.name;
      ASSERT_EQ(row[bins + internal::kNanSlot], expected.nan) << kernel.name;
    }
  }

  // Runs of 1, 2, 4 ... samples, and the rest.
  std::vector<cpu::SampleRun> InRuns(const std::vector<std::byte>& bytes) const {
    std::vector<cpu::SampleRun> runs;
    const size_t samples = bytes.size() / SampleBytes(type());
    size_t begin = 0;
    for (size_t length = 1; begin + length < samples && length <= 1024; length *= 2) {
      runs.push_back({bytes.data() + begin * SampleBytes(type()), length});
      begin += length;
    }
    runs.push_back({bytes.data() + begin * SampleBytes(type()), samples - begin});
    return runs;
  }

  static std::string Describe(const Plan& plan, const std::vector<double>& edges) {
    return std::string(NameOf(plan.type())) + " by " + std::string(plan.family()) + ", " +
           std::to_string(edges.size() - 1) + " bins over [" + std::to_string(edges.front()) +
           ", " + std::to_string(edges.back()) + "]";
  }

  std::vector<std::byte> Samples(const std::vector<double>& edges, size_t count) {
    std::vector<std::byte> bytes;
    AppendOnEdges(type(), edges, count / 2, random_, bytes);
    AppendWithin(type(), edges, count / 4, random_, bytes);
    AppendRandomBits(type(), count / 4 + 3, random_, bytes);
    return bytes;
  }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  std::mt19937_64 random_{20261124};
  std::set<std::string> families_, kernels_;
};

INSTANTIATE_TEST_SUITE_P(Types, TypedTest, ::testing::ValuesIn(kAllTypes), TypeName);

TEST_P(TypedTest, EvenBinsOfOrdinaryRanges) {
  for (const uint32_t bins : {1U, 2U, 3U, 10U, 64U, 100U, 256U, 1000U, 2048U, 16384U}) {
    for (const auto& [lower, upper] : {std::pair(0.0, 1.0),
                                       {-1.0, 1.0},
                                       {0.1, 0.8},
                                       {-4.0, 4.0},
                                       {0.0, 256.0},
                                       {-128.0, 128.0},
                                       {0.0, 65536.0},
                                       {-32768.0, 32768.0},
                                       {1000.0, 1010.0},
                                       {-1e6, 1e6},
                                       {0.0, 4294967296.0}}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      ASSERT_TRUE(binning.ok());
      ExpectExact(*binning, Samples(binning->ComputeEdges(), 3000));
    }
  }
}

TEST_P(TypedTest, EvenBinsOfRandomRanges) {
  for (size_t round = 0; round < Rounds(400); ++round) {
    const double scale = std::exp2(Uniform(-40, 60));
    const double a = Uniform(-1, 1) * scale, b = a + Uniform(0, 1) * scale;
    const auto bins = static_cast<uint32_t>(std::exp2(Uniform(0, 12)));
    const Result<Binning> binning = Binning::Even(bins, a, b);
    if (!binning.ok()) continue;  // edges that round to the same double
    ExpectExact(*binning, Samples(binning->ComputeEdges(), 400));
  }
}

TEST_P(TypedTest, ArbitraryEdges) {
  for (size_t round = 0; round < Rounds(200); ++round) {
    const std::vector<double> edges = RandomEdges(round % 2 == 0, 11, random_);
    const Result<Binning> binning = Binning::Edges(edges);
    ASSERT_TRUE(binning.ok());
    ExpectExact(*binning, Samples(edges, 400));
  }
}

// Edges closer together than the samples of the type: some bins can hold none.
TEST_P(TypedTest, EdgesBetweenNeighbouringSamples) {
  for (const double from : {0.0, 1.0, 100.0, -77.0, 1e9, -3e18, 9e18}) {
    const double step = std::max(1.0, std::fabs(from)) * 0x1p-50;
    std::vector<double> edges;
    for (int i = 0; i < 64; ++i) edges.push_back(from + i * step);
    edges.push_back(from + std::max(2.0, std::fabs(from) / 8));
    const Result<Binning> binning = Binning::Edges(edges);
    ASSERT_TRUE(binning.ok());
    ExpectExact(*binning, Samples(edges, 1000));
  }
}

TEST_P(TypedTest, EvenBinsOfExtremeRanges) {
  for (const auto& [lower, upper] : {std::pair(-8e307, 8e307),
                                     {0.0, 1e-320},
                                     {-1e-300, 1e-300},
                                     {0.0, 1e-40},
                                     {1.0, 1 + 0x1p-40},
                                     {1.7e18, 1.7e18 + 4096 * 256},
                                     {0x1p64 - 4096 * 2048, 0x1p64},
                                     {-0x1p63, 0x1p63}}) {
    for (const uint32_t bins : {1U, 10U, 1000U}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      ASSERT_TRUE(binning.ok());
      ExpectExact(*binning, Samples(binning->ComputeEdges(), 1000));
    }
  }
}

TEST_P(TypedTest, RangesThatTheTypeDoesNotReach) {
  for (const auto& [lower, upper] : kOddRanges) {
    for (const uint32_t bins : {1U, 7U, 100U}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      ASSERT_TRUE(binning.ok());
      ExpectExact(*binning, Samples(binning->ComputeEdges(), 1000));
    }
  }
}

TEST_P(TypedTest, ManyBins) {
  const Result<Binning> even = Binning::Even(65536, -3.0, 70000.0);
  ASSERT_TRUE(even.ok());
  ExpectExact(*even, Samples(even->ComputeEdges(), 200000));
  std::vector<double> edges;
  for (int i = 0; i <= 65536; ++i) edges.push_back(std::pow(i / 65536.0, 3) * 40000);
  const Result<Binning> uneven = Binning::Edges(edges);
  ASSERT_TRUE(uneven.ok());
  ExpectExact(*uneven, Samples(edges, 200000));
}

// Every value of the narrow types, once.
TEST_P(TypedTest, AllValuesOfNarrowTypes) {
  const size_t size = SampleBytes(type());
  if (size > 2) GTEST_SKIP() << "a type of " << size * 8 << " bits has too many values";
  std::vector<std::byte> bytes(size << (size * 8));
  for (size_t v = 0; v < bytes.size() / size; ++v) std::memcpy(bytes.data() + v * size, &v, size);
  for (size_t round = 0; round < Rounds(40); ++round) {
    const double a = Uniform(-40000, 70000), b = a + std::exp2(Uniform(-3, 17));
    const Result<Binning> binning =
        Binning::Even(static_cast<uint32_t>(std::exp2(Uniform(0, 12))), a, b);
    ASSERT_TRUE(binning.ok());
    ExpectExact(*binning, bytes);
  }
  EXPECT_EQ(families_, std::set<std::string>{"patterns"});
}

TEST_P(TypedTest, EveryFamilyOfTheTypeIsTried) {
  const Result<Binning> even = Binning::Even(100, 0.0, 1000.0);
  const Result<Binning> uneven = Binning::Edges({0.0, 1.0, 10.0, 100.0, 20000.0});
  for (const Result<Binning>* binning : {&even, &uneven}) {
    ASSERT_TRUE(binning->ok());
    ExpectExact(**binning, Samples((*binning)->ComputeEdges(), 1000));
  }
  if (SampleBytes(type()) <= 2) {
    EXPECT_EQ(families_, std::set<std::string>{"patterns"});
    return;
  }
  EXPECT_EQ(families_, (std::set<std::string>{"guess", "key"}));
#if defined(__aarch64__)
  EXPECT_TRUE(kernels_.contains("typed_neon"));
#endif
}

TEST_P(TypedTest, AnyAlignmentAndLength) {
  const Result<Binning> binning = Binning::Even(50, 0.0, 100.0);
  ASSERT_TRUE(binning.ok());
  const Result<Plan> plan = Plan::Make(*binning, type());
  ASSERT_TRUE(plan.ok());
  const size_t size = SampleBytes(type());
  const std::vector<std::byte> bytes = Samples(binning->ComputeEdges(), 1200);
  std::vector<std::byte> moved(bytes.size() + 64);
  for (size_t offset = 0; offset < 33; ++offset) {
    std::memcpy(moved.data() + offset, bytes.data(), bytes.size());
    for (const size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65},
                               size_t{127}, size_t{200}, bytes.size() / size}) {
      const std::span<const std::byte> part(moved.data() + offset, count * size);
      ASSERT_EQ(Count(part, *plan), PlainHistogram(part, type(), binning->ComputeEdges()));
    }
  }
}

// Fragments of any length, empty ones too, that begin and end within samples.
TEST_P(TypedTest, FragmentsMayCutSamples) {
  const Binning binning = *Binning::Even(40, -20.0, 60.0);
  const Plan plan = *Plan::Make(binning, type());
  const std::vector<double> edges = binning.ComputeEdges();
  for (const size_t most : {1, 3, 7, 20, 5000}) {
    const std::vector<std::byte> bytes = Samples(edges, 20'000);
    std::vector<Fragment> fragments;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t length = std::min<size_t>(
          static_cast<size_t>(Uniform(0, static_cast<double>(most + 1))), bytes.size() - begin);
      fragments.emplace_back(reinterpret_cast<const uint8_t*>(bytes.data()) + begin, length);
      begin += length;
    }
    std::vector<uint64_t> row(internal::SlotCount(plan.bin_count()), 77);
    CountPayload(plan, fragments, row);
    const Histogram expected = PlainHistogram(bytes, type(), edges);
    for (uint32_t i = 0; i < plan.bin_count(); ++i) ASSERT_EQ(row[i], expected.counts[i]) << i;
    EXPECT_EQ(row[plan.bin_count() + internal::kBelowSlot], expected.below);
    EXPECT_EQ(row[plan.bin_count() + internal::kAboveSlot], expected.above);
    EXPECT_EQ(row[plan.bin_count() + internal::kNanSlot], expected.nan);
  }
}

TEST_P(TypedTest, ThreadsAndPartsCountTheSame) {
  const Result<Binning> binning = Binning::Even(300, -50.0, 100.0);
  ASSERT_TRUE(binning.ok());
  const Result<Plan> plan = Plan::Make(*binning, type());
  ASSERT_TRUE(plan.ok());
  std::vector<std::byte> bytes;
  const size_t count = (size_t{5} << 20) / SampleBytes(type()) + 7;
  AppendWithin(type(), binning->ComputeEdges(), 5000, random_, bytes);
  while (bytes.size() < count * SampleBytes(type())) {
    bytes.insert(bytes.end(), bytes.begin(), bytes.begin() + 5000);
  }
  bytes.resize(count * SampleBytes(type()));
  const Histogram whole = Count(bytes, *plan);
  for (const uint32_t threads : {0U, 1U, 2U, 3U, 8U}) {
    Histogram sum = EmptyHistogram(*plan);
    AddSamples(bytes, *plan, threads, sum);
    EXPECT_EQ(sum, whole) << threads;
  }
  Histogram merged = EmptyHistogram(*plan);
  const size_t half = bytes.size() / SampleBytes(type()) / 2 * SampleBytes(type());
  Merge(Count(std::span(bytes).first(half), *plan), merged);
  Merge(Count(std::span(bytes).subspan(half), *plan), merged);
  EXPECT_EQ(merged, whole);
}

TEST(AddSamplesTest, TakesNoMoreThreadsThanTheProcessMayUse) {
  const std::vector<std::byte> bytes(size_t{64} << 20);
  const Result<Plan> plan = Plan::Make(*Binning::Even(300, -50.0, 100.0), SampleType::kF32);
  ASSERT_TRUE(plan.ok());
  Histogram sum = EmptyHistogram(*plan);
  EXPECT_GT(ShareOfTimeOnOneCore([&] { AddSamples(bytes, *plan, 0, sum); }), 0.9);
}

TEST(CountTest, SamplesOfAnotherSizeThanThePlansAreNoticed) {
  const Result<Plan> plan = Plan::Make(*Binning::Even(300, -50.0, 100.0), SampleType::kF32);
  const std::vector<double> doubles(3);
  EXPECT_DEBUG_DEATH(Count(std::span<const double>(doubles), *plan), "sizeof\\(Number\\)");
}

TEST_P(TypedTest, ExtentIsThatOfTheFiniteSamples) {
  EXPECT_FALSE(FindExtent({}, type()).has_value());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> bytes;
    AppendRandomBits(type(), 40, random_, bytes);
    long double least = std::numeric_limits<long double>::max(), greatest = -least;
    bool finite = true;
    internal::VisitSample(type(), [&]<typename S>(S) {
      for (size_t i = 0; i < bytes.size(); i += sizeof(typename S::Bits)) {
        const auto x = static_cast<long double>(
            S::Widen(internal::LoadBits<typename S::Bits>(bytes.data() + i)));
        finite &= std::isfinite(x);
        if (std::isfinite(x)) least = std::min(least, x);
        if (std::isfinite(x)) greatest = std::max(greatest, x);
      }
    });
    const std::optional<Extent> extent = FindExtent(bytes, type());
    ASSERT_TRUE(extent.has_value());
    EXPECT_EQ(extent->finite, finite);
    // Outwards by less than a double's step.
    EXPECT_LE(extent->least, least);
    EXPECT_GE(extent->greatest, greatest);
    EXPECT_GT(std::nextafter(extent->least, INFINITY), least - 1e-300L);
    EXPECT_LT(std::nextafter(extent->greatest, -INFINITY), greatest + 1e-300L);
  }
}

// Whatever their order, which decides what the least of equal numbers is.
TEST_P(TypedTest, ExtentHasZeroForNegativeZero) {
  const size_t size = SampleBytes(type());
  if (NameOf(type()).find('f') == std::string_view::npos) GTEST_SKIP() << "integers have one zero";
  for (const size_t negative : {1, 2, 3}) {  // every one, every other one, every third
    std::vector<std::byte> zeros(67 * size);
    for (size_t i = 0; i < 67; i += negative) zeros[i * size + size - 1] = std::byte{0x80};
    const std::optional<Extent> extent = FindExtent(zeros, type());
    ASSERT_TRUE(extent.has_value());
    EXPECT_FALSE(std::signbit(extent->least)) << negative;
    EXPECT_FALSE(std::signbit(extent->greatest)) << negative;
  }
}

TEST(SampleTypeTest, NamesReadBack) {
  for (const SampleType type : kAllTypes) {
    EXPECT_EQ(ParseSampleType(NameOf(type)), type);
    EXPECT_GE(SampleBytes(type), 1U);
  }
  for (const char* name : {"", "f", "F32", "float32", "f32 ", "u128"}) {
    EXPECT_FALSE(ParseSampleType(name).has_value()) << name;
  }
}

TEST(PlanTest, BinningsOfBytesHaveNone) {
  const Result<Binning> letters = Binning::Alphabet('a', 26, 1);
  ASSERT_TRUE(letters.ok());
  const Result<Plan> plan = Plan::Make(*letters, SampleType::kF32);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kBadBinning);
  EXPECT_NE(plan.error().message.find("f32"), std::string::npos);
}

// What makes the usual plans fast: next to nothing is left to settle by comparison.
TEST(PlanTest, GuessesOfUsualPlansAreNextToExact) {
  for (const auto& [lower, upper] : {std::pair(0.0, 1.0), {0.1, 0.8}, {1.0, 4.0}, {-4.0, 4.0}}) {
    for (const uint32_t bins : {10U, 256U, 1000U, 2048U, 16384U}) {
      const Result<Plan> plan = Plan::Make(*Binning::Even(bins, lower, upper), SampleType::kF32);
      EXPECT_LT(std::get<internal::Bins<float>>(plan->data().bins).guess.error, 1e-10)
          << bins << " bins over [" << lower << ", " << upper << "]";
    }
  }
}

}  // namespace
}  // namespace histogram
