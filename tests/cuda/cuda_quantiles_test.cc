// Exact quantiles on the GPU, against sorted samples.
#include <histogram/cuda.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/order_statistics.h"
#include "tests/cuda/gpu.h"

namespace histogram {
namespace {

class CudaQuantilesTest : public testing::TypedGpuTest {
 protected:
  std::vector<double> Values(const std::vector<std::byte>& bytes) {
    std::vector<double> values;
    internal::VisitSample(type(), [&]<typename S>(S) {
      using Bits = typename S::Bits;
      for (size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
        values.push_back(static_cast<double>(S::Widen(internal::LoadBits<Bits>(bytes.data() + i))) +
                         0.0);
      }
    });
    return values;
  }

  // Of samples as DeviceRanks returns them.
  std::vector<double> ValuesOf(const std::vector<uint64_t>& samples) {
    std::vector<std::byte> packed;
    for (const uint64_t& bits : samples) {
      const auto* const first = reinterpret_cast<const std::byte*>(&bits);
      packed.insert(packed.end(), first, first + SampleBytes(type()));
    }
    return Values(packed);
  }

  std::vector<std::byte> WithoutNan(const std::vector<std::byte>& bytes) {
    const std::vector<double> values = Values(bytes);
    const size_t size = SampleBytes(type());
    std::vector<std::byte> kept;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      const auto* const at = bytes.data() + i * size;
      kept.insert(kept.end(), at, at + size);
    }
    return kept;
  }

  void ExpectExact(const std::vector<std::byte>& bytes, const std::vector<double>& quantiles,
                   size_t offset = 0) {
    std::vector<double> values = Values(bytes);
    const bool has_nan =
        std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
    if (!has_nan) std::sort(values.begin(), values.end());
    Result<DeviceQuantiles> search = DeviceQuantiles::Make(type(), quantiles);
    ASSERT_TRUE(search.ok()) << search.error().message;
    const uint8_t* const at = Upload(bytes, offset);
    for (int call = 0; call < 2; ++call) {
      const std::optional<Error> error = search->Find(at, values.size(), stream());
      ASSERT_FALSE(error.has_value()) << error->message;
      const Result<std::vector<double>> found = search->Read(stream());
      ASSERT_TRUE(found.ok()) << found.error().message;
      ASSERT_EQ(found->size(), quantiles.size());
      for (size_t i = 0; i < quantiles.size(); ++i) {
        const double expected =
            has_nan || values.empty()
                ? std::numeric_limits<double>::quiet_NaN()
                : internal::QuantileOf(values.size(), quantiles[i],
                                       [&](uint64_t rank) { return values[rank]; });
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan((*found)[i])) << quantiles[i];
        } else {
          EXPECT_EQ((*found)[i], expected) << quantiles[i];
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CudaQuantilesTest, ::testing::ValuesIn(testing::kAllTypes),
                         testing::TypeName);

TEST_P(CudaQuantilesTest, OfAnySamples) {
  for (const auto& edges : {std::vector<double>{-1, 0, 1}, {0, 255}, {-1e6, 1e6}, {5, 5.001}}) {
    for (const size_t count : {size_t{4}, size_t{1000}, size_t{200'000}}) {
      const std::vector<std::byte> bytes = WithoutNan(Samples(edges, count));
      ExpectExact(bytes, {0.5}, 1);
      ExpectExact(bytes, {0, 0.01, 0.25, 0.5, 0.75, 0.99, 1});
    }
  }
}

TEST_P(CudaQuantilesTest, MoreThanOneSearchHolds) {
  std::vector<double> quantiles;
  for (int i = 0; i < 40; ++i) quantiles.push_back(Uniform(0, 1));
  ExpectExact(WithoutNan(Samples({-100, 100}, 50'000)), quantiles);
}

TEST_P(CudaQuantilesTest, OfEqualSamples) {
  for (const double value : {0.0, 1.0, 37.0, 100.0}) {
    std::vector<std::byte> one, bytes;
    testing::AppendWithin(type(), {value, value}, 1, random_, one);
    for (int i = 0; i < 10'000; ++i) bytes.insert(bytes.end(), one.begin(), one.end());
    ExpectExact(bytes, {0, 0.3, 1});
  }
}

TEST_P(CudaQuantilesTest, OfZerosOfBothSigns) {
  std::vector<std::byte> bytes;
  testing::AppendWithin(type(), {0, 0}, 1001, random_, bytes);
  const size_t size = SampleBytes(type());
  const bool has_sign = std::signbit(Values(std::vector<std::byte>(size, std::byte{0x80}))[0]);
  for (size_t i = size - 1; has_sign && i < bytes.size(); i += 2 * size) bytes[i] = std::byte{0x80};
  ExpectExact(bytes, {0, 0.5, 1});
}

TEST_P(CudaQuantilesTest, NanAmongTheSamplesMakesEachNan) {
  std::vector<std::byte> bytes = Samples({0, 1}, 1000);
  for (size_t i = 0; i < SampleBytes(type()); ++i) bytes[i] = std::byte{0xFF};  // NaN, of floats
  ExpectExact(bytes, {0, 0.5});
}

TEST_P(CudaQuantilesTest, SamplesAtRanksAreThoseOfSortedRows) {
  Result<DeviceRanks> search = DeviceRanks::Make(type());
  ASSERT_TRUE(search.ok()) << search.error().message;
  const std::vector<std::byte> bytes = WithoutNan(Samples({-100, 100}, 50'000));
  const std::vector<double> values = Values(bytes);
  const void* const samples = Upload(bytes, 0);
  // All samples with more ranks than are searched for at once, again with the same memory; rows
  // with a wait for all of them, and with one in the middle of a row's ranks.
  for (const auto& [rows, rank_count] : {std::pair(1U, 37U), {1U, 700U}, {9U, 4U}, {9U, 50U}}) {
    const size_t row_size = values.size() / rows;
    std::vector<uint64_t> ranks = {0, 0, 1};
    for (size_t i = 1; i < rank_count; ++i) ranks.push_back(row_size * i / rank_count);
    ranks.push_back(row_size - 1);
    const Result<std::vector<uint64_t>> found =
        search->Find(samples, row_size, ranks, stream(), rows);
    ASSERT_TRUE(found.ok()) << found.error().message;
    const std::vector<double> at_ranks = ValuesOf(*found);
    ASSERT_EQ(at_ranks.size(), rows * ranks.size());
    for (size_t r = 0; r < rows; ++r) {
      std::vector<double> row(values.begin() + r * row_size, values.begin() + (r + 1) * row_size);
      std::sort(row.begin(), row.end());
      for (size_t i = 0; i < ranks.size(); ++i) {
        EXPECT_EQ(at_ranks[r * ranks.size() + i], row[ranks[i]]) << r << " " << ranks[i];
      }
    }
  }
  const Result<std::vector<uint64_t>> none = search->Find(nullptr, 0, {}, stream());
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_P(CudaQuantilesTest, OfNoSamplesAreNan) { ExpectExact({}, {0.5, 1}); }

TEST_P(CudaQuantilesTest, AQuantileOutsideIsRefused) {
  for (const double q : {-0.1, 1.1, std::nan("")}) {
    const Result<DeviceQuantiles> search = DeviceQuantiles::Make(type(), {0.5, q});
    ASSERT_FALSE(search.ok());
    EXPECT_EQ(search.error().field, "quantiles");
  }
}

}  // namespace
}  // namespace histogram
