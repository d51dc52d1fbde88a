// Every CUDA kernel of the registry, by the same rules: exact for any distribution, size and
// alignment, one payload a launch and many.
#include <algorithm>

#include "tests/cuda/gpu.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram::testing {
namespace {

constexpr uint32_t kSizes[] = {0,       1,      15,      16,      17,
                               31,      32,     33,      511,     512,
                               513,     4095,   4096,    4097,    7681,
                               8192,    8193,   32767,   65535,   65536,
                               65537,   100003, 1 << 20, 1048583, (4 << 20) + 1,
                               16 << 20};
constexpr uint32_t kOffsets[] = {0, 1, 2, 3, 7, 8, 13, 15};
constexpr uint32_t kSlowBytesMax = 1 << 20;
constexpr uint32_t kSmallBytesMax = 5000;

std::vector<uint32_t> Expected(absl::Span<const uint8_t> payload) {
  const ValueCounts values = ReferenceCounts(payload);
  std::vector<uint32_t> row(kByteValues);
  for (uint32_t value = 0; value < kByteValues; ++value) {
    row[value] = static_cast<uint32_t>(values[value]);
  }
  return row;
}

class CudaKernelTest : public ::testing::TestWithParam<const cuda::CudaKernel*> {
 protected:
  void SetUp() override {
    HISTOGRAM_SKIP_WITHOUT_GPU();
    device_ = devices.front();
  }
  const cuda::CudaKernel& kernel() const { return *GetParam(); }
  void MakeRunner(uint64_t input_bytes, uint32_t payloads) {
    runner_ = std::make_unique<KernelRunner>(device_, input_bytes, payloads);
  }
  cuda::Device device_;
  std::unique_ptr<KernelRunner> runner_;
};

TEST_P(CudaKernelTest, DistributionsSizesAndAlignments) {
  MakeRunner((16 << 20) + 64, 1);
  size_t turn = 0;
  for (const uint32_t all : kSizes) {
    const uint32_t size = std::min(all, kernel().slow ? kSlowBytesMax : ~0U);
    for (const Distribution distribution : kDistributions) {
      // Small payloads lie at every offset, large ones at one after the other.
      for (size_t i = 0; i < (size <= kSmallBytesMax ? std::size(kOffsets) : 1); ++i, ++turn) {
        const uint32_t offset = kOffsets[turn % std::size(kOffsets)];
        SCOPED_TRACE(::testing::Message()
                     << Name(distribution) << ", " << size << " bytes at offset " << offset);
        const std::vector<uint8_t> payload = MakePayload(distribution, size, turn);
        runner_->Upload(payload, offset);
        const auto rows = runner_->Count(kernel(), {{offset, size, 0}});
        ASSERT_EQ(rows[0], Expected(payload));
      }
    }
  }
}

TEST_P(CudaKernelTest, ManyPayloadsOfMixedSizes) {
  constexpr uint64_t kInputBytes = 24 << 20;
  const uint32_t payloads_max = kernel().batches ? 3000 : 60;
  MakeRunner(kInputBytes, payloads_max);
  Random random(7);
  for (int round = 0; round < (kernel().slow ? 2 : 8); ++round) {
    const std::vector<uint8_t> input =
        MakePayload(kDistributions[round % kDistributions.size()], kInputBytes, round);
    runner_->Upload(input, 0);
    std::vector<cuda::PayloadDescriptor> payloads;
    uint64_t at = 0;
    // Rounds differ in how large payloads get and whether they are aligned.
    const uint32_t size_bits = kernel().slow ? 14 : 4 + 3 * round;
    while (payloads.size() < payloads_max) {
      uint64_t bytes = random.Below(uint64_t{1} << (1 + random.Below(std::min(size_bits, 23U))));
      if (round % 3 == 0 && payloads.size() % 2 == 0) bytes = bytes / 512 * 512;
      if (at + bytes > kInputBytes) break;
      payloads.push_back({at, static_cast<uint32_t>(bytes), 0});
      at += round % 2 == 0 ? (bytes + 15) / 16 * 16 : bytes + random.Below(3);
    }
    ASSERT_FALSE(payloads.empty());
    const auto rows = runner_->Count(kernel(), payloads);
    for (size_t i = 0; i < payloads.size(); ++i) {
      const absl::Span<const uint8_t> payload =
          absl::MakeConstSpan(input).subspan(payloads[i].offset, payloads[i].bytes);
      ASSERT_EQ(rows[i], Expected(payload))
          << "round " << round << ", payload " << i << " of " << payloads.size() << ", "
          << payloads[i].bytes << " bytes at " << payloads[i].offset;
    }
  }
}

TEST_P(CudaKernelTest, BatchesOfOneSize) {
  constexpr uint64_t kInputBytes = 32 << 20;
  for (const uint32_t size : {0U, 1U, 16U, 1024U, 4096U, 8192U, 8193U, 65536U, 1048576U}) {
    if (kernel().slow && size > 8193) continue;
    const uint32_t count =
        std::min<uint64_t>(kernel().batches ? 4000 : 20, kInputBytes / std::max(size, 1U));
    MakeRunner(uint64_t{count} * std::max(size, 1U), count);
    const std::vector<uint8_t> input =
        MakePayload(Distribution::kGauss, uint64_t{count} * size, size);
    runner_->Upload(input, 0);
    std::vector<cuda::PayloadDescriptor> payloads;
    for (uint32_t i = 0; i < count; ++i) payloads.push_back({uint64_t{i} * size, size, 0});
    const auto rows = runner_->Count(kernel(), payloads);
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(rows[i], Expected(absl::MakeConstSpan(input).subspan(uint64_t{i} * size, size)))
          << "payload " << i << " of " << count << ", " << size << " bytes each";
    }
  }
}

// Small enough for compute-sanitizer: buffers end exactly where the payload does.
TEST_P(CudaKernelTest, SanitizerSet) {
  for (const uint32_t size : {1U, 17U, 511U, 4097U, 70001U}) {
    for (const uint32_t offset : {0U, 3U}) {
      MakeRunner(size + offset, 1);
      const std::vector<uint8_t> payload = MakePayload(Distribution::kLetters, size, size);
      runner_->Upload(payload, offset);
      const auto rows = runner_->Count(kernel(), {{offset, size, 0}});
      ASSERT_EQ(rows[0], Expected(payload)) << size << " bytes at " << offset;
    }
  }
  std::vector<cuda::PayloadDescriptor> payloads;
  uint32_t at = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t bytes = i % 7 == 6 ? 9000 : i * 37;
    payloads.push_back({at, bytes, 0});
    at += bytes;
  }
  MakeRunner(at, 40);
  const std::vector<uint8_t> input = MakePayload(Distribution::kUniform, at, 1);
  runner_->Upload(input, 0);
  const auto rows = runner_->Count(kernel(), payloads);
  for (size_t i = 0; i < payloads.size(); ++i) {
    ASSERT_EQ(rows[i],
              Expected(absl::MakeConstSpan(input).subspan(payloads[i].offset, payloads[i].bytes)));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, CudaKernelTest, ::testing::ValuesIn(cuda::Kernels()),
                         [](const ::testing::TestParamInfo<const cuda::CudaKernel*>& test) {
                           return std::string(test.param->name);
                         });

// Fills the runner's input with repetitions of `unit` and returns the exact counts.
ValueCounts FillDevice(KernelRunner& runner, const std::vector<uint8_t>& unit, uint64_t bytes) {
  ValueCounts unit_counts{}, counts{};
  for (const uint8_t value : unit) ++unit_counts[value];
  for (uint64_t at = 0; at < bytes; at += unit.size()) {
    const uint64_t length = std::min<uint64_t>(unit.size(), bytes - at);
    EXPECT_EQ(cudaMemcpy(runner.input() + at, unit.data(), length, cudaMemcpyHostToDevice),
              cudaSuccess);
    if (length == unit.size()) {
      for (uint32_t v = 0; v < kByteValues; ++v) counts[v] += unit_counts[v];
    } else {
      for (uint64_t i = 0; i < length; ++i) ++counts[unit[i]];
    }
  }
  return counts;
}

class CudaLargeTest : public ::testing::TestWithParam<const char*> {
 protected:
  void CountsExactly(const std::vector<uint8_t>& unit, uint64_t bytes) {
    HISTOGRAM_SKIP_WITHOUT_GPU();
    if (devices.front().memory_bytes < 3 * bytes) {
      GTEST_SKIP() << "needs a GPU with " << 3 * bytes << " bytes, and it has "
                   << devices.front().memory_bytes;
    }
    const cuda::CudaKernel& kernel = *cuda::FindKernel(GetParam());
    KernelRunner runner(devices.front(), bytes, 2);
    const ValueCounts expected = FillDevice(runner, unit, bytes);
    ValueCounts counts{};
    constexpr uint64_t kPieceMax = 0xFFFFFFF0U;
    for (uint64_t at = 0; at < bytes; at += kPieceMax) {
      const auto length = static_cast<uint32_t>(std::min(kPieceMax, bytes - at));
      const auto rows = runner.Count(kernel, {{at, length, 0}});
      for (uint32_t v = 0; v < kByteValues; ++v) counts[v] += rows[0][v];
    }
    EXPECT_EQ(counts, expected);
  }
};

TEST_P(CudaLargeTest, TwoToThe31AndThreeUniformBytes) {
  CountsExactly(MakePayload(Distribution::kUniform, (64 << 20) + 7, 5), (uint64_t{1} << 31) + 3);
}

TEST_P(CudaLargeTest, TwoToThe32AndFiveEqualBytes) {
  CountsExactly(std::vector<uint8_t>(256 << 20, 201), (uint64_t{1} << 32) + 5);
}

INSTANTIATE_TEST_SUITE_P(Fast, CudaLargeTest,
                         ::testing::Values("shared_private", "run_accumulator", "packed_thread",
                                           "cub_histogram", "lane_private", "warp_batch"),
                         [](const ::testing::TestParamInfo<const char*>& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace histogram::testing
