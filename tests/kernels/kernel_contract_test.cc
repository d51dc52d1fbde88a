// What every CPU kernel in the registry promises: exact counts, added, for any size, address and
// fragmentation.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/counters.h"
#include "kernels/cpu/registry.h"
#include "kernels/payload.h"
#include "tests/kernels/payloads.h"
#include "tests/kernels/reference.h"

namespace histogram::cpu {
namespace {

using ::histogram::testing::Distribution;
using ::histogram::testing::kDistributions;
using ::histogram::testing::MakePayload;
using ::histogram::testing::Name;
using ::histogram::testing::Random;

std::vector<std::string> KernelNames() {
  std::vector<std::string> names;
  for (const CpuKernel& kernel : ByteKernels()) names.emplace_back(kernel.name);
  return names;
}

const CpuKernel* FindKernel(std::string_view name) {
  return &*std::ranges::find(ByteKernels(), name, &CpuKernel::name);
}

ValueCounts CountWith(const CpuKernel& kernel, absl::Span<const Fragment> fragments) {
  ValueCounts counts{};
  kernel.count(Plan().data(), fragments, counts.data());
  return counts;
}

ValueCounts CountWith(const CpuKernel& kernel, Fragment fragment) {
  return CountWith(kernel, absl::MakeConstSpan(&fragment, 1));
}

class KernelContractTest : public ::testing::TestWithParam<std::tuple<std::string, Distribution>> {
 protected:
  void SetUp() override {
    kernel_ = FindKernel(std::get<0>(GetParam()));
    if (!kernel_->supported()) GTEST_SKIP() << kernel_->name << " cannot run on this processor";
  }
  Distribution distribution() const { return std::get<1>(GetParam()); }

  const CpuKernel* kernel_ = nullptr;
};

TEST_P(KernelContractTest, EverySizeAndAddress) {
  constexpr size_t kSmall[] = {0,   1,   2,   3,   7,   8,    9,    15,   16,   17,   31,  32,
                               33,  63,  64,  65,  127, 128,  129,  191,  192,  193,  255, 256,
                               257, 511, 512, 513, 575, 1023, 1024, 1025, 4095, 4096, 4097};
  const std::vector<uint8_t> bytes = MakePayload(distribution(), 4097 + 64, 7);
  for (const size_t size : kSmall) {
    for (size_t shift = 0; shift < 64; ++shift) {
      const Fragment fragment(bytes.data() + shift, size);
      ASSERT_EQ(CountWith(*kernel_, fragment), ReferenceCounts(fragment))
          << size << " bytes, " << shift << " off";
    }
  }
}

TEST_P(KernelContractTest, LargerSizes) {
  constexpr size_t kLarge[] = {8191,   8192,   8193,    16383,        16384,  16385,
                               32767,  65535,  65536,   65537,        131071, 131072,
                               131073, 262144, 1 << 20, (1 << 20) + 3};
  const std::vector<uint8_t> bytes = MakePayload(distribution(), (1 << 20) + 3 + 64, 8);
  for (const size_t size : kLarge) {
    for (const size_t shift : {0, 1, 31, 63}) {
      const Fragment fragment(bytes.data() + shift, size);
      ASSERT_EQ(CountWith(*kernel_, fragment), ReferenceCounts(fragment))
          << size << " bytes, " << shift << " off";
    }
  }
}

TEST_P(KernelContractTest, AnyFragmentation) {
  Random random(9);
  for (const size_t size : {100, 5000, 70000, 300000}) {
    const std::vector<uint8_t> bytes = MakePayload(distribution(), size, size);
    for (int round = 0; round < 8; ++round) {
      const size_t longest = size_t{1} << random.Below(18);
      std::vector<Fragment> fragments(1);  // starts with an empty one
      for (size_t at = 0; at < size;) {
        const size_t length = std::min<size_t>(random.Below(longest + 1), size - at);
        fragments.emplace_back(bytes.data() + at, length);
        at += length;
      }
      ASSERT_EQ(CountWith(*kernel_, fragments), ReferenceCounts(bytes))
          << size << " bytes, fragments of up to " << longest;
    }
  }
}

TEST_P(KernelContractTest, AddsToWhatIsThere) {
  const std::vector<uint8_t> bytes = MakePayload(distribution(), 10000);
  const ValueCounts once = ReferenceCounts(bytes);
  ValueCounts counts;
  std::iota(counts.begin(), counts.end(), uint64_t{1} << 40);
  const Fragment fragment(bytes);
  kernel_->count(Plan().data(), {&fragment, 1}, counts.data());
  kernel_->count(Plan().data(), {&fragment, 1}, counts.data());
  for (size_t v = 0; v < kByteValues; ++v) {
    ASSERT_EQ(counts[v], (uint64_t{1} << 40) + v + 2 * once[v]) << "value " << v;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, KernelContractTest,
                         ::testing::Combine(::testing::ValuesIn(KernelNames()),
                                            ::testing::ValuesIn(kDistributions)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + Name(std::get<1>(test.param));
                         });

class KernelTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    kernel_ = FindKernel(GetParam());
    if (!kernel_->supported()) GTEST_SKIP() << kernel_->name << " cannot run on this processor";
  }

  const CpuKernel* kernel_ = nullptr;
};

// Each value on its own, alone and at the end of a run of another.
TEST_P(KernelTest, EachValue) {
  for (uint32_t v = 0; v < kByteValues; ++v) {
    std::vector<uint8_t> bytes(20000, static_cast<uint8_t>(v));
    ValueCounts expected{};
    expected[v] = 19999;
    expected[(v + 1) % kByteValues] = 1;
    for (const size_t at : {0, 1, 9999, 19998, 19999}) {
      bytes[at] = static_cast<uint8_t>(v + 1);
      ASSERT_EQ(CountWith(*kernel_, Fragment(bytes)), expected) << "value " << v << " at " << at;
      bytes[at] = static_cast<uint8_t>(v);
    }
  }
}

// The most bytes of one call: no 32-bit count inside a kernel may wrap. The same bytes are given
// again and again as further fragments; some of their groups are runs and some are not.
TEST_P(KernelTest, TheMostBytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a minute of what the other tests let the sanitizers see";
#endif
  if (kernel_->bytes_min == 0) GTEST_SKIP() << "adds straight to the caller's 64-bit counts";
  std::vector<uint8_t> bytes(size_t{1} << 20, 77);
  uint64_t others = 0;
  for (size_t i = 500; i < bytes.size(); i += 1000) {
    bytes[i] = 200;
    ++others;
  }
  const uint64_t repeats = kSamplesMax / bytes.size();
  std::vector<Fragment> fragments(repeats, Fragment(bytes));
  ValueCounts expected{};
  expected[77] = repeats * (bytes.size() - others);
  expected[200] = repeats * others;
  EXPECT_EQ(CountWith(*kernel_, fragments), expected);
  // A payload may have more: it takes several calls.
  fragments.resize(3 * repeats, Fragment(bytes));
  for (uint64_t& count : expected) count *= 3;
  ValueCounts counts{};
  AddPayload(Plan(), fragments, counts);
  EXPECT_EQ(counts, expected);
}

INSTANTIATE_TEST_SUITE_P(Registry, KernelTest, ::testing::ValuesIn(KernelNames()),
                         [](const auto& test) { return test.param; });

TEST(RegistryTest, IsWellFormed) {
  std::set<std::string_view> names;
  for (const std::span<const CpuKernel> kernels : {ByteKernels(), TypedKernels()}) {
    ASSERT_FALSE(kernels.empty());
    EXPECT_TRUE(kernels[0].supported());
    EXPECT_EQ(kernels[0].bytes_min, 0U);
    for (const CpuKernel& kernel : kernels) {
      EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name << " is there twice";
      EXPECT_FALSE(kernel.summary.empty());
    }
  }
}

TEST(RegistryTest, DefaultIsSupportedAndPays) {
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1} << 16, uint64_t{1} << 40}) {
    const CpuKernel& kernel = DefaultKernel(Plan().data(), bytes);
    EXPECT_TRUE(kernel.supported());
    EXPECT_LE(kernel.bytes_min, bytes);
  }
  EXPECT_GT(&DefaultKernel(Plan().data(), uint64_t{1} << 20), &DefaultKernel(Plan().data(), 10));
}

}  // namespace
}  // namespace histogram::cpu
