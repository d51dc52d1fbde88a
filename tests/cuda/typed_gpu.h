// What the tests of typed samples on a GPU share: the first one, memory for samples, and samples.
#ifndef HISTOGRAM_TESTS_CUDA_TYPED_GPU_H_
#define HISTOGRAM_TESTS_CUDA_TYPED_GPU_H_

#include <histogram/typed.h>

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {

class TypedGpuTest : public ::testing::TestWithParam<SampleType> {
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

  SampleType type() const { return GetParam(); }
  CUstream_st* stream() const { return stream_.get(); }

  // On edges, within their range, and of any bits.
  std::vector<std::byte> Samples(const std::vector<double>& edges, size_t count) {
    std::vector<std::byte> bytes;
    AppendOnEdges(type(), edges, count / 2, random_, bytes);
    AppendWithin(type(), edges, count / 4, random_, bytes);
    AppendRandomBits(type(), count / 4 + 3, random_, bytes);
    return bytes;
  }

  // Puts samples on the device, `offset` samples behind an aligned address.
  const uint8_t* Upload(const std::vector<std::byte>& bytes, size_t offset = 0) {
    uint8_t* const at = samples_.get(offset * SampleBytes(type()));
    EXPECT_LE(bytes.size() + offset * SampleBytes(type()), kBytesMax);
    EXPECT_EQ(cudaMemcpy(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
    // The copy may return before it is done, and this stream does not wait for it.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return at;
  }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  static constexpr size_t kBytesMax = size_t{16} << 20;
  std::mt19937_64 random_{20261125};
  cuda::DeviceBuffer samples_;
  cuda::Stream stream_;
};

inline std::string TypeName(const ::testing::TestParamInfo<SampleType>& of) {
  return std::string(NameOf(of.param));
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_CUDA_TYPED_GPU_H_
