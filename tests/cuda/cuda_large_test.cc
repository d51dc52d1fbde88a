// Payloads beyond 2^31 and 2^32 bytes through the fast kernels: cut into pieces of less than 4 GiB,
// as lanes hold them, with the pieces' u32 rows summed in u64.
#include <algorithm>

#include "tests/cuda/gpu.h"
#include "tests/kernels/payloads.h"

namespace histogram::testing {
namespace {

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
