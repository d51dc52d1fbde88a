// Typed samples: every kernel that this processor runs, against the plain answer.
#include <histogram/histogram.h>
#include <histogram/typed.h>

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cpu/registry.h"
#include "kernels/payload.h"
#include "tests/kernels/on_one_core.h"
#include "tests/kernels/typed_samples.h"

namespace histogram {
namespace {

using testing::AppendWithin;
using testing::kAllTypes;
using testing::PlainHistogram;
using testing::Rounds;
using testing::TypeName;

class TypedTest : public ::testing::TestWithParam<SampleType> {
 protected:
  using Names = std::set<std::string>;

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
    for (const cpu::CpuKernel& kernel : cpu::TypedKernels()) {
      if (!kernel.supported() || !kernel.counts(plan.data())) continue;
      kernels_.emplace(kernel.name);
      std::vector<uint64_t> row(internal::SlotCount(plan.bin_count()), 0);
      kernel.count(plan.data(), InFragments(bytes), row.data());
      const size_t bins = edges.size() - 1;
      ASSERT_EQ(std::vector<uint64_t>(row.begin(), row.begin() + static_cast<ptrdiff_t>(bins)),
                expected.counts)
          << kernel.name << ", " << Describe(plan, edges);
      ASSERT_EQ(row[bins + internal::kBelowSlot], expected.below) << kernel.name;
      ASSERT_EQ(row[bins + internal::kAboveSlot], expected.above) << kernel.name;
      ASSERT_EQ(row[bins + internal::kNanSlot], expected.nan) << kernel.name;
    }
  }

  // Of 1, 2, 4 ... samples, and the rest.
  std::vector<Fragment> InFragments(const std::vector<std::byte>& bytes) const {
    std::vector<Fragment> fragments;
    Fragment rest = FragmentOf(bytes);
    for (size_t length = SampleBytes(type()); length < rest.size() && fragments.size() <= 10;
         length *= 2) {
      fragments.push_back(rest.first(length));
      rest = rest.subspan(length);
    }
    fragments.push_back(rest);
    return fragments;
  }

  static std::string Describe(const Plan& plan, const std::vector<double>& edges) {
    return std::string(NameOf(plan.type())) + " by " + std::string(plan.family()) + ", " +
           std::to_string(edges.size() - 1) + " bins over [" + std::to_string(edges.front()) +
           ", " + std::to_string(edges.back()) + "]";
  }

  std::vector<std::byte> Samples(const std::vector<double>& edges, size_t count) {
    return testing::MixedSamples(type(), edges, count, random_);
  }
  void ExpectExact(const std::vector<Binning>& binnings, size_t samples) {
    for (const Binning& binning : binnings) {
      ExpectExact(binning, Samples(binning.ComputeEdges(), samples));
      if (HasFatalFailure()) return;
    }
  }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  std::mt19937_64 random_{20261124};
  Names families_, kernels_;
};

INSTANTIATE_TEST_SUITE_P(Types, TypedTest, ::testing::ValuesIn(kAllTypes), TypeName);

TEST_P(TypedTest, OrdinaryBinnings) { ExpectExact(testing::OrdinaryBinnings(), 3000); }

TEST_P(TypedTest, RandomBinnings) {
  ExpectExact(testing::RandomBinnings(Rounds(600), random_), 400);
  const bool narrow = SampleBytes(type()) <= 2;
  EXPECT_EQ(families_, narrow ? Names{"patterns"} : (Names{"guess", "key"}));
#if defined(__aarch64__)
  EXPECT_TRUE(narrow || kernels_.contains("typed_neon"));
#endif
}

TEST_P(TypedTest, OddBinnings) { ExpectExact(testing::OddBinnings(), 1000); }

TEST_P(TypedTest, ManyBins) {
  ExpectExact({*Binning::Even(65536, -3.0, 70000.0), testing::UnevenBinning(65536)}, 200'000);
}

// Every value of the narrow types, once.
TEST_P(TypedTest, AllValuesOfNarrowTypes) {
  const size_t size = SampleBytes(type());
  if (size > 2) GTEST_SKIP() << "a type of " << size * 8 << " bits has too many values";
  std::vector<std::byte> bytes(size << (size * 8));
  for (size_t v = 0; v < bytes.size() / size; ++v) std::memcpy(bytes.data() + v * size, &v, size);
  for (size_t round = 0; round < Rounds(40); ++round) {
    const double a = Uniform(-40000, 70000), b = a + std::exp2(Uniform(-3, 17));
    ExpectExact(*Binning::Even(static_cast<uint32_t>(std::exp2(Uniform(0, 12))), a, b), bytes);
  }
  EXPECT_EQ(families_, Names{"patterns"});
}

TEST_P(TypedTest, AnyAlignmentAndLength) {
  const Plan plan = *Plan::Make(*Binning::Even(50, 0.0, 100.0), type());
  const std::vector<double> edges = plan.binning().ComputeEdges();
  const size_t size = SampleBytes(type());
  const std::vector<std::byte> bytes = Samples(edges, 1200);
  std::vector<std::byte> moved(bytes.size() + 64);
  for (size_t offset = 0; offset < 33; ++offset) {
    std::memcpy(moved.data() + offset, bytes.data(), bytes.size());
    for (const size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65},
                               size_t{127}, size_t{200}, bytes.size() / size}) {
      const std::span<const std::byte> part(moved.data() + offset, count * size);
      ASSERT_EQ(Count(part, plan), PlainHistogram(part, type(), edges));
    }
  }
}

TEST_P(TypedTest, AnyNumberOfThreadsCountsTheSame) {
  const Plan plan = *Plan::Make(*Binning::Even(300, -50.0, 100.0), type());
  std::vector<std::byte> bytes;
  const size_t count = (size_t{5} << 20) / SampleBytes(type()) + 7;
  AppendWithin(type(), plan.binning().ComputeEdges(), 5000, random_, bytes);
  while (bytes.size() < count * SampleBytes(type())) {
    bytes.insert(bytes.end(), bytes.begin(), bytes.begin() + 5000);
  }
  bytes.resize(count * SampleBytes(type()));
  const Histogram whole = Count(bytes, plan);
  for (const uint32_t threads : {0U, 1U, 2U, 3U, 8U}) {
    Histogram sum = EmptyHistogram(plan);
    AddSamples(bytes, plan, threads, sum);
    EXPECT_EQ(sum, whole) << threads;
  }
}

TEST(AddSamplesTest, TakesNoMoreThreadsThanTheProcessMayUse) {
  const std::vector<std::byte> bytes(size_t{64} << 20);
  const Plan plan = *Plan::Make(*Binning::Even(300, -50.0, 100.0), SampleType::kF32);
  Histogram sum = EmptyHistogram(plan);
  EXPECT_GT(ShareOfTimeOnOneCore([&] { AddSamples(bytes, plan, 0, sum); }), 0.9);
}

TEST(CountTest, SamplesOfAnotherSizeThanThePlansAreNoticed) {
  const Result<Plan> plan = Plan::Make(*Binning::Even(300, -50.0, 100.0), SampleType::kF32);
  const std::vector<double> doubles(3);
  EXPECT_DEBUG_DEATH(Count(std::span<const double>(doubles), *plan), "sizeof\\(Number\\)");
}

TEST(CountTest, APlanOfBytesCountsThemIntoItsBins) {
  const std::string text = "abcabcxyz!";
  for (const Binning& binning : {Plan().binning(), *Binning::Alphabet('a', 3, 2)}) {
    const Histogram expected = Count(text, binning);
    EXPECT_EQ(Count(std::as_bytes(std::span(text)), Plan::OfBytes(binning)), expected);
    Histogram sum = EmptyHistogram(Plan::OfBytes(binning));
    for (int i = 0; i < 2; ++i) {
      AddSamples(std::as_bytes(std::span(text)), Plan::OfBytes(binning), 2, sum);
    }
    EXPECT_EQ(sum, Count(text + text, binning));
  }
}

TEST_P(TypedTest, ExtentIsThatOfTheFiniteSamples) {
  EXPECT_FALSE(FindExtent({}, type()).has_value());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> bytes;
    testing::AppendRandomBits(type(), 40, random_, bytes);
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

}  // namespace
}  // namespace histogram
