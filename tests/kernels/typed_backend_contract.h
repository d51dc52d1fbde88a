// What every backend that counts typed samples promises, as a test suite; instantiated like
// BackendContractTest.
#ifndef HISTOGRAM_TESTS_KERNELS_TYPED_BACKEND_CONTRACT_H_
#define HISTOGRAM_TESTS_KERNELS_TYPED_BACKEND_CONTRACT_H_

#include <histogram/typed.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/backend_contract.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {

inline Plan MakePlan(const Result<Binning>& binning, SampleType type) {
  EXPECT_TRUE(binning.ok()) << binning.error().message;
  return *Plan::Make(*binning, type);
}

class TypedBackendContractTest : public BackendContractTest {
 protected:
  void SetUp() override {
    BackendContractTest::SetUp();
    if (backend_ != nullptr) {
      ASSERT_GT(backend_->info().lane_counters, 0U);
    }
  }

  // Payloads of these bins that a batch may hold.
  size_t PayloadsMax(uint64_t bins) const {
    const uint64_t fit = backend_->info().lane_counters / internal::SlotCount(bins);
    return LanePayloads(static_cast<size_t>(std::min<uint64_t>(fit, 5000)));
  }

  void ExpectCounted(BatchFixture& fixture) {
    const std::unique_ptr<Batch> batch = Run(fixture.MakeBatch());
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    EXPECT_EQ(batch->report.payloads, fixture.size());
    EXPECT_EQ(batch->report.backend, backend_->info().name);
    ExpectOwnKernel(batch->report.kernel);
    ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
  }

  std::mt19937_64 random_{20261126};
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TypedBackendContractTest);

TEST_P(TypedBackendContractTest, EveryTypeUnderEvenBins) {
  for (const SampleType type : kAllTypes) {
    for (const auto& [bins, lower, upper] : {std::tuple(1U, 0.0, 1.0),
                                             {10U, 0.1, 0.8},
                                             {256U, 0.0, 256.0},
                                             {2048U, -4.0, 4.0},
                                             {5000U, -3.7, 12.1},
                                             {65536U, -3.0, 70000.0}}) {
      BatchFixture fixture(MakePlan(Binning::Even(bins, lower, upper), type));
      fixture.Add(4000, random_, 1001);
      ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
    }
  }
}

TEST_P(TypedBackendContractTest, EveryTypeUnderArbitraryEdges) {
  for (const SampleType type : kAllTypes) {
    for (int round = 0; round < 6; ++round) {
      const std::vector<double> edges = RandomEdges(round % 2 == 0, 12, random_);
      BatchFixture fixture(MakePlan(Binning::Edges(edges), type));
      fixture.Add(3000, random_, 777);
      ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
    }
  }
}

TEST_P(TypedBackendContractTest, RangesThatTheTypeDoesNotReach) {
  for (const SampleType type : kAllTypes) {
    for (const auto& [lower, upper] : kOddRanges) {
      BatchFixture fixture(MakePlan(Binning::Even(7, lower, upper), type));
      fixture.Add(500, random_);
      ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
    }
  }
}

TEST_P(TypedBackendContractTest, FragmentsThatCutSamples) {
  for (const SampleType type : kAllTypes) {
    for (const size_t fragment_bytes : {1, 2, 3, 5, 7, 13, 129}) {
      BatchFixture fixture(MakePlan(Binning::Even(100, 0.0, 200.0), type));
      fixture.Add(700, random_, fragment_bytes);
      fixture.Add(1, random_, fragment_bytes);
      ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
    }
  }
}

TEST_P(TypedBackendContractTest, ManyPayloadsOfMixedSizes) {
  for (const SampleType type : {SampleType::kF32, SampleType::kU16, SampleType::kF64}) {
    const uint32_t bins = 300;
    BatchFixture fixture(MakePlan(Binning::Even(bins, -10.0, 500.0), type));
    const uint64_t room = LaneBytes(size_t{1} << 20);
    const size_t payloads = PayloadsMax(bins);
    for (size_t i = 0; i < payloads && i < 200; ++i) {
      const size_t count = random_() % (size_t{1} << random_() % 14);
      if (fixture.bytes() + count * SampleBytes(type) > room) break;
      fixture.Add(count, random_, 1 + random_() % 3000);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
  }
}

TEST_P(TypedBackendContractTest, NoSamples) {
  BatchFixture fixture(MakePlan(Binning::Even(9, 0.0, 1.0), SampleType::kF32));
  fixture.Add(0, random_);
  fixture.Add(0, random_);
  ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
}

TEST_P(TypedBackendContractTest, AsManyPayloadsAsItsCountersAndLanesAllow) {
  for (const uint32_t bins : {2U, 65536U}) {
    BatchFixture fixture(MakePlan(Binning::Even(bins, -1.0, 1.0), SampleType::kF32));
    const size_t payloads = std::min<size_t>(PayloadsMax(bins), bins > 1000 ? 16 : 5000);
    for (size_t i = 0; i < payloads; ++i) fixture.Add(1 + i % 5, random_);
    ASSERT_NO_FATAL_FAILURE(ExpectCounted(fixture));
  }
}

TEST_P(TypedBackendContractTest, BytesAndTypedSamplesInTurn) {
  for (int round = 0; round < 20; ++round) {
    BatchFixture bytes;
    bytes.Add(MakePayload(Distribution::kGauss, LaneBytes(30000), round), 999);
    const std::unique_ptr<Batch> batch = Run(bytes.MakeBatch());
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    ASSERT_NO_FATAL_FAILURE(bytes.ExpectExact());
    const SampleType type = kAllTypes[round % std::size(kAllTypes)];
    BatchFixture typed(MakePlan(Binning::Even(1000 + round, -50.0, 50.0), type));
    typed.Add(3000, random_);
    typed.Add(100, random_);
    ASSERT_NO_FATAL_FAILURE(ExpectCounted(typed));
  }
}

// What one lane sets up for its size must not be in the way of the others.
TEST_P(TypedBackendContractTest, AllLanesAtOnceWithPayloadsOfDifferentSizes) {
  constexpr int kBatchesPerLane = 40;
  const Plan plan = MakePlan(Binning::Even(2048, -4.0, 4.0), SampleType::kF32);
  const uint32_t lanes = std::min(backend_->info().lanes, 4U);
  std::deque<BatchFixture> fixtures;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const size_t wanted = (size_t{1} << 14) + size_t{lane} * 350'000;
    fixtures.emplace_back(plan).Add(LaneBytes(wanted * sizeof(float)) / sizeof(float), random_);
  }
  std::vector<std::thread> callers;
  std::atomic<int> failures{0};
  for (BatchFixture& fixture : fixtures) {
    callers.emplace_back([&] {
      for (int i = 0; i < kBatchesPerLane; ++i) {
        if (!Run(fixture.MakeBatch())->status.ok()) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failures.load(), 0);
  for (const BatchFixture& fixture : fixtures) {
    ASSERT_NO_FATAL_FAILURE(fixture.ExpectExact());
  }
}

TEST_P(TypedBackendContractTest, EstimatesGrowWithSamplesAndBins) {
  const auto estimate = [this](uint64_t bytes, uint32_t bins, uint32_t payloads) {
    return backend_->EstimateNs({.sample_bytes = 4,
                                 .bin_count = bins,
                                 .payload_bytes = bytes / payloads,
                                 .payload_count = payloads,
                                 .batch_bytes = bytes});
  };
  uint64_t previous = 0;
  for (uint64_t bytes = 1024; bytes <= LaneBytes(size_t{1} << 28); bytes *= 4) {
    EXPECT_GT(estimate(bytes, 2048, 1), previous);
    previous = estimate(bytes, 2048, 1);
  }
  EXPECT_GT(estimate(1 << 16, 1 << 18, 1), estimate(1 << 16, 2048, 1));
  EXPECT_GT(estimate(1 << 16, 2048, 16), estimate(1 << 16, 2048, 1));
  backend_->EstimateNs({.sample_bytes = 8, .payload_count = 0});
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_TYPED_BACKEND_CONTRACT_H_
