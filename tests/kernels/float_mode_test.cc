// Answers do not depend on the floating-point mode that another library has set for the thread.
#include "kernels/float_mode.h"

#include <histogram/sample_statistics.h>
#include <histogram/statistics.h>
#include <histogram/typed.h>

#include <cfenv>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/order_statistics.h"
#include "kernels/payload.h"
#include "tests/kernels/typed_samples.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace histogram {
namespace {

// Sets a mode for as long as it lives.
class ForeignMode {
 public:
  ForeignMode(int rounding, bool flush) {
    std::fegetenv(&before_);
    std::fesetround(rounding);
    if (flush) Flush();
  }
  ~ForeignMode() { std::fesetenv(&before_); }
  ForeignMode(const ForeignMode&) = delete;
  ForeignMode& operator=(const ForeignMode&) = delete;

  // What a thread's mode is, without what has happened so far.
  static uint64_t Now() {
    auto rounding = static_cast<uint64_t>(std::fegetround());
#if defined(__x86_64__)
    rounding |= uint64_t{_mm_getcsr() & ~0x3FU} << 32;
#elif defined(__aarch64__)
    uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));  // NOLINT(hicpp-no-assembler)
    rounding |= mode << 32;
#endif
    return rounding;
  }

 private:
  static void Flush() {
#if defined(__x86_64__)
    constexpr unsigned kFlushToZero = 0x8000, kSubnormalsAreZero = 0x0040;
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kSubnormalsAreZero);
#elif defined(__aarch64__)
    uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));                       // NOLINT(hicpp-no-assembler)
    asm volatile("msr fpcr, %0" : : "r"(mode | uint64_t{1} << 24));  // NOLINT(hicpp-no-assembler)
#endif
  }
  std::fenv_t before_;
};

// All that the library says of samples.
auto AnswersOf(SampleType type, uint32_t bins, double lower, double upper,
               const std::vector<std::byte>& bytes) {
  const Binning binning = *Binning::Even(bins, lower, upper);
  std::vector<double> edges = binning.ComputeEdges();
  const Binning listed = *Binning::Edges(edges);
  std::vector<Histogram> histograms;
  std::vector<Statistics> statistics;
  for (const Plan& plan : {*Plan::Make(binning, type), *Plan::Direct(binning, type),
                           *Plan::Make(listed, type), *Plan::Direct(listed, type)}) {
    Histogram histogram = Count(bytes, plan);
    statistics.push_back(ComputeStatistics(bytes, plan, histogram, {0.0, 0.1, 0.5, 0.77}));
    Histogram by_threads = EmptyHistogram(plan);
    AddSamples(bytes, plan, 3, by_threads);
    histograms.insert(histograms.end(), {std::move(histogram), std::move(by_threads)});
  }
  ValueCounts values{};
  for (const std::byte b : bytes) ++values[static_cast<uint8_t>(b)];
  statistics.push_back(ComputeStatistics(values, *Binning::Even(7, 0.1, 254.9), {{0.3, 0.9}}));
  edges.push_back(binning.edge(bins / 2 + 1));
  const Extent extent = FindExtent(bytes, type).value_or(Extent{});
  return std::tuple(edges, histograms, statistics, binning.table(), extent.least, extent.greatest,
                    internal::KeysAtRanks(bytes, type, {{0, 100, 500}}, 1));
}

TEST(FloatModeTest, AnswersDoNotDependOnIt) {
  struct Case {
    SampleType type;
    double lower, upper;
  };
  std::mt19937_64 random{20261127};
  for (const auto& [type, lower, upper] : {Case{SampleType::kF32, -1e-40, 1e-40},
                                           {SampleType::kF32, 0.1, 0.8},
                                           {SampleType::kF32, -1e-38, 3e-38},
                                           {SampleType::kF64, 0, 1e-317},
                                           {SampleType::kF64, -3e-308, 1e-308},
                                           {SampleType::kF64, 0.1, 0.8},
                                           {SampleType::kF16, -6e-7, 6e-7},
                                           {SampleType::kF16, -0.3, 1},
                                           {SampleType::kBf16, -1e-39, 1e-39},
                                           {SampleType::kBf16, 0, 3},
                                           {SampleType::kI32, 0.1, 1000.7},
                                           {SampleType::kI64, 1.7e18, 1.7e18 + 1e7},
                                           {SampleType::kU64, 0x1p63, 0x1p64}}) {
    for (const uint32_t bins : {2U, 7U, 300U}) {
      const std::vector<double> edges = Binning::Even(bins, lower, upper)->ComputeEdges();
      std::vector<std::byte> bytes;
      testing::AppendOnEdges(type, edges, 500, random, bytes);
      testing::AppendWithin(type, edges, 500, random, bytes);
      const auto expected = AnswersOf(type, bins, lower, upper, bytes);
      ASSERT_EQ(std::get<1>(expected)[0], testing::PlainHistogram(bytes, type, edges));
      for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        for (const bool flush : {false, true}) {
          auto answers = expected;
          uint64_t before = 0, after = 0;
          {
            const ForeignMode mode(rounding, flush);
            before = ForeignMode::Now();
            answers = AnswersOf(type, bins, lower, upper, bytes);
            after = ForeignMode::Now();
          }
          EXPECT_EQ(before, after);
          EXPECT_TRUE(answers == expected)
              << NameOf(type) << ", " << bins << " bins over [" << lower << ", " << upper
              << "], rounding " << rounding << (flush ? ", flushing" : "");
        }
      }
    }
  }
}

// Threads that count a long array are the library's own.
TEST(FloatModeTest, ThreadsOfTheLibraryHaveItsMode) {
  const Plan plan = *Plan::Make(*Binning::Edges({-1, 0, 1}), SampleType::kF32);
  std::vector<float> samples(1 << 20, -1e-40F);
  Histogram histogram = EmptyHistogram(plan);
  {
    const ForeignMode mode(FE_UPWARD, true);
    AddSamples(std::as_bytes(std::span(samples)), plan, 4, histogram);
  }
  EXPECT_EQ(histogram.counts, (std::vector<uint64_t>{samples.size(), 0}));
}

// fesetenv may leave traps on, as for a debugger.
TEST(FloatModeTest, NothingTraps) {
#if defined(__x86_64__)
  const Binning binning = *Binning::Even(10, 0.1, 0.8);
  const std::vector<double> samples = {0.1, 0.3, 0.35, 1e-320};
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0);  // no exception is masked
  const Histogram histogram =
      Count(std::as_bytes(std::span(samples)), *Plan::Make(binning, SampleType::kF64));
  _mm_setcsr(before);
  EXPECT_EQ(histogram.below, 1U);
#else
  GTEST_SKIP() << "x86-64 only";
#endif
}

}  // namespace
}  // namespace histogram
