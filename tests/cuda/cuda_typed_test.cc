// Typed samples on the GPU, against the library on the CPU, which typed_test.cc holds against the
// plain answer.
#include <histogram/cuda.h>
#include <histogram/typed.h>

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/typed_samples.h"

namespace histogram {
namespace {

class CudaTypedTest : public ::testing::TestWithParam<SampleType> {
 protected:
  void SetUp() override {
    HISTOGRAM_SKIP_WITHOUT_GPU();
    ASSERT_EQ(cudaSetDevice(devices.front().traits.index), cudaSuccess);
    absl::StatusOr<cuda::DeviceBuffer> samples = cuda::DeviceBuffer::Make(kBytesMax);
    ASSERT_TRUE(samples.ok());
    samples_ = *std::move(samples);
    absl::StatusOr<cuda::Stream> stream = cuda::MakeStream();
    ASSERT_TRUE(stream.ok());
    stream_ = *std::move(stream);
  }
  static std::vector<cuda::Device> FirstGpu(std::string& why_not) {
    return testing::FirstGpu(why_not);
  }

  SampleType type() const { return GetParam(); }

  std::vector<std::byte> Samples(const std::vector<double>& edges, size_t count) {
    std::vector<std::byte> bytes;
    testing::AppendOnEdges(type(), edges, count / 2, random_, bytes);
    testing::AppendWithin(type(), edges, count / 4, random_, bytes);
    testing::AppendRandomBits(type(), count / 4 + 3, random_, bytes);
    return bytes;
  }

  // `offset`: samples before the first, so that it lies at any multiple of the type's size.
  void ExpectExact(const Binning& binning, const std::vector<std::byte>& bytes, size_t offset = 0) {
    const Result<Plan> plan = Plan::Make(binning, type());
    ASSERT_TRUE(plan.ok());
    Result<DeviceCounter> counter = DeviceCounter::Make(*plan);
    ASSERT_TRUE(counter.ok()) << counter.error().message;
    uint8_t* const at = samples_.get(offset * SampleBytes(type()));
    ASSERT_LE(bytes.size() + offset * SampleBytes(type()), kBytesMax);
    ASSERT_EQ(cudaMemcpy(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
    const uint64_t count = bytes.size() / SampleBytes(type());
    // In two parts.
    const std::optional<Error> first = counter->Add(at, count / 3, stream_.get());
    ASSERT_FALSE(first.has_value()) << first->message;
    const std::optional<Error> second =
        counter->Add(at + count / 3 * SampleBytes(type()), count - count / 3, stream_.get());
    ASSERT_FALSE(second.has_value()) << second->message;
    const Result<Histogram> counted = counter->Read(stream_.get());
    ASSERT_TRUE(counted.ok()) << counted.error().message;
    ASSERT_EQ(*counted, Count(bytes, *plan))
        << NameOf(type()) << ", " << plan->bin_count() << " bins, " << plan->family();
    ASSERT_FALSE(counter->Clear(stream_.get()).has_value());
    EXPECT_EQ(*counter->Read(stream_.get()), EmptyHistogram(*plan));
  }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  static constexpr size_t kBytesMax = size_t{8} << 20;
  std::mt19937_64 random_{20261125};
  cuda::DeviceBuffer samples_;
  cuda::Stream stream_;
};

std::string TypeName(const ::testing::TestParamInfo<SampleType>& of) {
  return std::string(NameOf(of.param));
}
INSTANTIATE_TEST_SUITE_P(Types, CudaTypedTest, ::testing::ValuesIn(testing::kAllTypes), TypeName);

TEST_P(CudaTypedTest, EvenBins) {
  for (const uint32_t bins : {1U, 2U, 10U, 256U, 1000U, 4096U, 16384U, 49152U}) {
    for (const auto& [lower, upper] : {std::pair(0.0, 1.0),
                                       {0.1, 0.8},
                                       {-4.0, 4.0},
                                       {0.0, 65536.0},
                                       {0.0, 255.0},
                                       {-3.7, 12.1},
                                       {1000.0, 1010.0},
                                       {-1e6, 1e6}}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      ASSERT_TRUE(binning.ok());
      ExpectExact(*binning, Samples(binning->ComputeEdges(), 5000));
    }
  }
}

TEST_P(CudaTypedTest, RandomRanges) {
  for (int round = 0; round < 100; ++round) {
    const double scale = std::exp2(Uniform(-40, 60));
    const double a = Uniform(-1, 1) * scale, b = a + Uniform(0, 1) * scale;
    const Result<Binning> binning =
        Binning::Even(static_cast<uint32_t>(std::exp2(Uniform(0, 12))), a, b);
    if (!binning.ok()) continue;  // edges that round to the same double
    ExpectExact(*binning, Samples(binning->ComputeEdges(), 1000));
  }
}

TEST_P(CudaTypedTest, ArbitraryEdges) {
  for (int round = 0; round < 60; ++round) {
    const std::vector<double> edges = testing::RandomEdges(round % 2 == 0, 12, random_);
    const Result<Binning> binning = Binning::Edges(edges);
    ASSERT_TRUE(binning.ok());
    ExpectExact(*binning, Samples(edges, 1000));
  }
}

TEST_P(CudaTypedTest, RangesThatTheTypeDoesNotReach) {
  for (const auto& [lower, upper] : testing::kOddRanges) {
    for (const uint32_t bins : {1U, 7U, 100U}) {
      const Result<Binning> binning = Binning::Even(bins, lower, upper);
      ASSERT_TRUE(binning.ok());
      ExpectExact(*binning, Samples(binning->ComputeEdges(), 1000));
    }
  }
}

TEST_P(CudaTypedTest, MoreBinsThanSharedMemoryHolds) {
  const Result<Binning> even = Binning::Even(65536, -3.0, 70000.0);
  ASSERT_TRUE(even.ok());
  ExpectExact(*even, Samples(even->ComputeEdges(), 300000));
  std::vector<double> edges;
  for (int i = 0; i <= 65536; ++i) edges.push_back(std::pow(i / 65536.0, 3) * 40000);
  const Result<Binning> uneven = Binning::Edges(edges);
  ASSERT_TRUE(uneven.ok());
  ExpectExact(*uneven, Samples(edges, 300000));
}

TEST_P(CudaTypedTest, AnyAlignmentAndLength) {
  const Result<Binning> binning = Binning::Even(50, 0.0, 100.0);
  ASSERT_TRUE(binning.ok());
  const size_t size = SampleBytes(type());
  const std::vector<std::byte> bytes = Samples(binning->ComputeEdges(), 70000);
  for (size_t offset = 0; offset < 17; offset += 5) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{15}, size_t{16},
                               size_t{1000}, bytes.size() / size}) {
      ExpectExact(*binning,
                  std::vector<std::byte>(bytes.begin(),
                                         bytes.begin() + static_cast<ptrdiff_t>(count * size)),
                  offset);
    }
  }
}

TEST_P(CudaTypedTest, SamplesBetweenTheirAddressesAreRefused) {
  const size_t size = SampleBytes(type());
  if (size == 1) GTEST_SKIP() << "a byte lies at any address";
  Result<DeviceCounter> counter =
      DeviceCounter::Make(*Plan::Make(*Binning::Even(10, 0.0, 1.0), type()));
  ASSERT_TRUE(counter.ok());
  const std::optional<Error> error = counter->Add(samples_.get(1), 1, stream_.get());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "samples");
}

}  // namespace
}  // namespace histogram
