// Every CUDA kernel of the registry, by the same rules: exact for any bins, distribution, size and
// alignment, one payload a launch and many.
#include <algorithm>

#include "kernels/reference.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/payloads.h"

namespace histogram::testing {
namespace {

constexpr uint32_t kBins[] = {1, 2, 5, 7, 26, 64, 255, 256};
constexpr uint32_t kSizes[] = {0,       1,      15,      16,      17,
                               31,      32,     33,      511,     512,
                               513,     4095,   4096,    4097,    7681,
                               8192,    8193,   32767,   65535,   65536,
                               65537,   100003, 1 << 20, 1048583, (4 << 20) + 1,
                               16 << 20};
constexpr uint32_t kOffsets[] = {0, 1, 2, 3, 7, 8, 13, 15};
constexpr uint32_t kSlowBytesMax = 1 << 20;

// `bins` bins of equal width over the values, the rest of the values in none where it does not
// divide evenly.
cuda::BinMap MapOf(uint32_t bins) {
  cuda::BinMap map;
  map.bins = bins;
  const uint32_t width = kByteValues / bins;
  for (uint32_t value = 0; value < kByteValues; ++value) {
    const uint32_t bin = value / width;
    map.bin_of[value] = bin < bins ? static_cast<uint16_t>(bin) : cuda::BinMap::kNoBin;
  }
  return map;
}

std::vector<uint32_t> Expected(absl::Span<const uint8_t> payload, const cuda::BinMap* map) {
  const ValueCounts values = ReferenceCounts(payload);
  std::vector<uint32_t> row(kByteValues);
  for (uint32_t value = 0; value < kByteValues; ++value) {
    const uint32_t bin = map == nullptr ? value : map->bin_of[value];
    if (bin < kByteValues) row[bin] += static_cast<uint32_t>(values[value]);
  }
  return row;
}

class CudaKernelTest : public ::testing::TestWithParam<const cuda::CudaKernel*> {
 protected:
  void SetUp() override {
    HISTOGRAM_SKIP_WITHOUT_GPU(devices);
    device_ = devices.front();
  }
  const cuda::CudaKernel& kernel() const { return *GetParam(); }
  void MakeRunner(uint64_t input_bytes, uint32_t payloads) {
    runner_ = std::make_unique<KernelRunner>(device_, input_bytes, payloads);
  }
  cuda::Device device_;
  std::unique_ptr<KernelRunner> runner_;
};

// Each pair of values of two different parameters occurs together in some case.
struct Case {
  size_t bins, distribution, size, offset;
};
std::vector<Case> PairwiseCases() {
  const size_t counts[4] = {std::size(kBins), kDistributions.size(), std::size(kSizes),
                            std::size(kOffsets)};
  const auto pairs_of = [&counts](const size_t(&v)[4], auto visit) {
    for (size_t a = 0; a < 4; ++a) {
      for (size_t b = a + 1; b < 4; ++b) {
        visit((((a * 4 + b) * 32 + v[a]) * 32) + v[b]);
      }
    }
  };
  std::vector<bool> seen(16 * 32 * 32);
  Random random(11);
  std::vector<Case> cases;
  // Greedy: of some random candidates, the one with the most new pairs.
  size_t left = 0;
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = a + 1; b < 4; ++b) left += counts[a] * counts[b];
  }
  while (left > 0) {
    size_t best_new = 0;
    size_t best[4] = {};
    for (int candidate = 0; candidate < 60; ++candidate) {
      size_t v[4];
      for (size_t i = 0; i < 4; ++i) v[i] = random.Below(counts[i]);
      size_t fresh = 0;
      pairs_of(v, [&](size_t pair) { fresh += seen[pair] ? 0 : 1; });
      if (fresh > best_new) {
        best_new = fresh;
        std::copy(v, v + 4, best);
      }
    }
    if (best_new == 0) continue;
    pairs_of(best, [&](size_t pair) { seen[pair] = true; });
    left -= best_new;
    cases.push_back({best[0], best[1], best[2], best[3]});
  }
  return cases;
}

TEST_P(CudaKernelTest, PairwiseBinsDistributionsSizesAndAlignments) {
  MakeRunner((16 << 20) + 64, 1);
  for (const Case& c : PairwiseCases()) {
    const uint32_t most = kernel().slow() ? kSlowBytesMax : ~0U;
    const uint32_t size = std::min(kSizes[c.size], most);
    const uint32_t offset = kOffsets[c.offset];
    SCOPED_TRACE(::testing::Message()
                 << kBins[c.bins] << " bins, " << Name(kDistributions[c.distribution]) << ", "
                 << size << " bytes at offset " << offset);
    const std::vector<uint8_t> payload =
        MakePayload(kDistributions[c.distribution], size, c.offset);
    runner_->Upload(payload, offset);
    const cuda::BinMap map = MapOf(kBins[c.bins]);
    const cuda::BinMap* const map_or_null = kBins[c.bins] == kByteValues ? nullptr : &map;
    const auto rows = runner_->Count(kernel(), {{offset, size, 0}}, map_or_null);
    ASSERT_EQ(rows[0], Expected(payload, map_or_null));
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
      ASSERT_EQ(rows[0], Expected(payload, nullptr)) << bytes << " times " << int{value};
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
      ASSERT_EQ(rows[i], Expected(payload, nullptr))
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
      ASSERT_EQ(rows[i],
                Expected(absl::MakeConstSpan(input).subspan(uint64_t{i} * size, size), nullptr))
          << "payload " << i << " of " << count << ", " << size << " bytes each";
    }
  }
}

TEST_P(CudaKernelTest, ZeroedRowsAndTheNextOnes) {
  const uint32_t size = kernel().slow() ? 50000 : 3000001;
  MakeRunner(2 * uint64_t{size} + 16, 2);
  const std::vector<uint8_t> input = MakePayload(Distribution::kUniform, 2 * size, 3);
  runner_->Upload(input, 0);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto rows = runner_->CountIntoZeroedRows(kernel(), {{0, size, 0}, {size, size, 0}});
    ASSERT_EQ(rows[0], Expected(absl::MakeConstSpan(input).first(size), nullptr));
    ASSERT_EQ(rows[1], Expected(absl::MakeConstSpan(input).last(size), nullptr));
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
    ASSERT_EQ(rows[0], Expected(payload, nullptr)) << "launch " << i << ", " << bytes << " bytes";
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
      ASSERT_EQ(rows[0], Expected(payload, nullptr)) << size << " bytes at " << offset;
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
              Expected(absl::MakeConstSpan(input).subspan(payloads[i].offset, payloads[i].bytes),
                       nullptr));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, CudaKernelTest, ::testing::ValuesIn(cuda::Kernels()),
                         [](const ::testing::TestParamInfo<const cuda::CudaKernel*>& test) {
                           return std::string(test.param->name());
                         });

}  // namespace
}  // namespace histogram::testing
