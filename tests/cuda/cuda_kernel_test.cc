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
    const uint32_t size = std::min(all, kernel().slow() ? kSlowBytesMax : ~0U);
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

TEST_P(CudaKernelTest, AllValuesEqualHoweverManyThereAre) {
  MakeRunner(4 << 20, 1);
  for (const uint32_t size :
       {255U, 256U, 8160U, 8192U, 65535U, 65536U, 70000U, 1U << 20, 4U << 20}) {
    for (const uint8_t value : {0, 127, 128, 255}) {
      const uint32_t bytes = std::min(size, kernel().slow() ? 70000U : ~0U);
      const std::vector<uint8_t> payload(bytes, value);
      runner_->Upload(payload, 0);
      const auto rows = runner_->Count(kernel(), {{0, bytes, 0}});
      ASSERT_EQ(rows[0], Expected(payload)) << bytes << " times " << int{value};
    }
  }
}

TEST_P(CudaKernelTest, ManyPayloadsOfMixedSizes) {
  constexpr uint64_t kInputBytes = 24 << 20;
  const uint32_t payloads_max = kernel().batches() ? 3000 : 60;
  MakeRunner(kInputBytes, payloads_max);
  Random random(7);
  for (int round = 0; round < (kernel().slow() ? 2 : 8); ++round) {
    const std::vector<uint8_t> input =
        MakePayload(kDistributions[round % kDistributions.size()], kInputBytes, round);
    runner_->Upload(input, 0);
    std::vector<cuda::PayloadDescriptor> payloads;
    uint64_t at = 0;
    // Rounds differ in how large payloads get and whether they are aligned.
    const uint32_t size_bits = kernel().slow() ? 14 : 4 + 3 * round;
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
    if (kernel().slow() && size > 8193) continue;
    const uint32_t count =
        std::min<uint64_t>(kernel().batches() ? 4000 : 20, kInputBytes / std::max(size, 1U));
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

// What a launch leaves behind (self-clearing accumulators, kept sums) must not reach the next.
TEST_P(CudaKernelTest, LaunchesDoNotInfluenceEachOther) {
  MakeRunner(1 << 20, 4);
  Random random(99);
  for (int i = 0; i < 40; ++i) {
    const auto bytes = static_cast<uint32_t>(random.Below(kernel().slow() ? 5000 : 1 << 20));
    const std::vector<uint8_t> payload =
        MakePayload(kDistributions[i % kDistributions.size()], bytes, i);
    runner_->Upload(payload, 0);
    const auto rows = runner_->Count(kernel(), {{0, bytes, 0}});
    ASSERT_EQ(rows[0], Expected(payload)) << "launch " << i << ", " << bytes << " bytes";
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
                           return std::string(test.param->name());
                         });

}  // namespace
}  // namespace histogram::testing
