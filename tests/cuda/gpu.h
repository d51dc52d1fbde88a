// What the GPU tests share: a device or a reason to skip, a runner of single kernels, and memory
// for typed samples.
#ifndef HISTOGRAM_TESTS_CUDA_GPU_H_
#define HISTOGRAM_TESTS_CUDA_GPU_H_

#include <histogram/typed.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/cuda/backend/device_check.h"
#include "kernels/cuda/base/cuda_status.h"
#include "kernels/cuda/base/resources.h"
#include "kernels/cuda/kernels/kernel.h"
#include "tests/kernels/typed_samples.h"

// In SetUp: declares `devices`, the first GPU alone, or skips, saying why, where none can be used.
#define HISTOGRAM_SKIP_WITHOUT_GPU()                                                 \
  std::string why_not;                                                               \
  const std::vector<cuda::Device> devices = ::histogram::testing::FirstGpu(why_not); \
  if (devices.empty()) GTEST_SKIP() << "needs a GPU, and none can be used: " << why_not

namespace histogram::testing {

// The first usable GPU; empty, with the reason in `why_not`, where there is none.
inline std::vector<cuda::Device> FirstGpu(std::string& why_not) {
  std::vector<std::string> notes;
  std::vector<cuda::Device> devices = cuda::FindDevices(cuda::FaultPlan(), notes);
  why_not = absl::StrJoin(notes, "; ");
  if (devices.size() > 1) devices.resize(1);
  return devices;
}

// Runs kernels over payloads in device memory, on the first GPU.
class KernelRunner {
 public:
  KernelRunner(const cuda::Device& device, uint64_t input_bytes_max, uint32_t payloads_max)
      : traits_(device.traits) {
    EXPECT_EQ(cudaSetDevice(traits_.index), cudaSuccess);
    Check(cuda::PrepareKernels(traits_));
    stream_ = Take(cuda::MakeStream());
    input_ = Take(cuda::DeviceBuffer::Make(input_bytes_max));
    rows_ = Take(cuda::DeviceBuffer::Make(payloads_max * cuda::kRowBytes));
    descriptors_ = Take(cuda::DeviceBuffer::Make(sizeof(cuda::BatchHeader) +
                                                 payloads_max * sizeof(cuda::PayloadDescriptor)));
    const auto bytes_max = static_cast<uint32_t>(std::min<uint64_t>(input_bytes_max, 0xFFFFFFF0U));
    scratch_ = Take(cuda::DeviceBuffer::Make(cuda::ScratchBytesMax(traits_, bytes_max)));
    clean_ = Take(cuda::DeviceBuffer::Make(cuda::CleanBytesMax(traits_)));
  }

  // Puts bytes at an offset of the input buffer.
  void Upload(const std::vector<uint8_t>& bytes, uint64_t offset) {
    if (bytes.empty()) return;
    ASSERT_EQ(cudaMemcpy(input_.get(offset), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  // A row for each payload, which lie at {offset, bytes} in the input. The rows are poisoned
  // before.
  std::vector<std::vector<uint32_t>> Count(const cuda::CudaKernel& kernel,
                                           std::vector<cuda::PayloadDescriptor> payloads) {
    cuda::Launch launch = Prepare(kernel, payloads);
    EXPECT_EQ(cudaMemset(launch.rows, 0xA5, payloads.size() * cuda::kRowBytes), cudaSuccess);
    return Run(kernel, launch);
  }

  uint8_t* input() const { return input_.get(); }

 private:
  static void Check(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }
  template <typename T>
  static T Take(absl::StatusOr<T> made) {
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : T();
  }

  cuda::Launch Prepare(const cuda::CudaKernel& kernel,
                       std::vector<cuda::PayloadDescriptor>& payloads) {
    const uint32_t units =
        cuda::AssignUnits(absl::MakeSpan(payloads), kernel.payload_overhead_units);
    const cuda::BatchHeader header = {static_cast<uint32_t>(payloads.size()), units, 1, 0};
    EXPECT_EQ(cudaMemcpy(descriptors_.get(), &header, sizeof(header), cudaMemcpyHostToDevice),
              cudaSuccess);
    if (!payloads.empty()) {
      EXPECT_EQ(cudaMemcpy(descriptors_.get(sizeof(header)), payloads.data(),
                           payloads.size() * sizeof(payloads[0]), cudaMemcpyHostToDevice),
                cudaSuccess);
    }
    cuda::Launch launch;
    launch.input = input_.get();
    launch.header = descriptors_.get<cuda::BatchHeader>();
    launch.payloads = payloads;
    launch.units = units;
    launch.rows = rows_.get<uint32_t>();
    launch.scratch = scratch_.get();
    launch.clean = clean_.get();
    launch.device = &traits_;
    launch.stream = stream_.get();
    return launch;
  }

  std::vector<std::vector<uint32_t>> Run(const cuda::CudaKernel& kernel,
                                         const cuda::Launch& launch) {
    // Scratch may hold anything.
    EXPECT_EQ(cudaMemset(scratch_.get(), 0xC3, scratch_.bytes()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    Check(kernel.Enqueue(launch));
    const cudaError_t error = cudaStreamSynchronize(stream_.get());
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
    std::vector<std::vector<uint32_t>> rows(launch.payloads.size(),
                                            std::vector<uint32_t>(kByteValues));
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(cudaMemcpy(rows[i].data(), launch.rows + i * kByteValues, cuda::kRowBytes,
                           cudaMemcpyDeviceToHost),
                cudaSuccess);
    }
    return rows;
  }

  const cuda::DeviceTraits traits_;
  cuda::Stream stream_;
  cuda::DeviceBuffer input_, rows_, descriptors_, scratch_, clean_;
};

// The first GPU, memory for typed samples, and samples.
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

  std::vector<std::byte> Samples(const std::vector<double>& edges, size_t count) {
    return MixedSamples(type(), edges, count, random_);
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

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_CUDA_GPU_H_
