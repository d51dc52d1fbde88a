// What every backend promises of phases, as a test suite; instantiated like BackendContractTest.
#ifndef HISTOGRAM_TESTS_KERNELS_PHASES_BACKEND_CONTRACT_H_
#define HISTOGRAM_TESTS_KERNELS_PHASES_BACKEND_CONTRACT_H_

#include <histogram/typed.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/payload.h"
#include "kernels/phases.h"
#include "kernels/reference.h"
#include "kernels/rows.h"
#include "tests/kernels/backend_contract.h"
#include "tests/kernels/typed_samples.h"

namespace histogram::testing {

// Finds the extent, then counts by a plan, in rows or in one row. Checks the outcome of each phase.
// `asks`: it says the plan of each row when its extent is known.
class CheckedPhases final : public Phases {
 public:
  CheckedPhases(std::span<const std::byte> samples, Plan plan, std::optional<RowCut> cut,
                bool asks = false)
      : samples_(samples), plan_(std::move(plan)), cut_(std::move(cut)), asks_(asks) {
    if (!cut_.has_value()) return;
    ForEachRow(*cut_, samples, SampleBytes(plan_.type()),
               [this](uint64_t, std::span<const std::byte> row) {
                 expected_.emplace_back(row.begin(), row.end());
               });
  }

  std::shared_ptr<Phases> Anew() const override { return nullptr; }
  PhaseLimits needs() const override {
    if (!cut_.has_value() || asks_) return {};
    return {.row_bins = plan_.counts_values() ? kByteValues : plan_.bin_count(),
            .pixel_bytes = cut_->channels * SampleBytes(plan_.type())};
  }

  std::optional<Phase> Next(std::span<const Fragment> payload) override {
    EXPECT_EQ(BytesOf(payload), samples_.size());
    switch (phases_++) {
      case 0:
        return ExtentPhase{plan_.type()};
      case 1:
        if (cut_.has_value()) {
          return RowsPhase{.type = plan_.type(),
                           .cut = &*cut_,
                           .plan = asks_ ? std::nullopt : std::optional(plan_)};
        }
        counters_.assign(plan_.counter_count(), 0xdeadbeefdeadbeef);
        return CountPhase{plan_, counters_};
      default:
        return std::nullopt;
    }
  }

  void Found(const std::optional<Extent>& extent) override { ExpectExtent(extent, samples_); }

  // Nothing is counted from the first row on that has a sample that is not finite.
  std::optional<Plan> PlanOver(uint64_t row, const std::optional<Extent>& extent,
                               std::span<const std::byte> samples) override {
    EXPECT_TRUE(asks_);
    EXPECT_EQ(row, rows_);
    EXPECT_TRUE(std::ranges::equal(samples, expected_[row])) << "row " << row;
    ExpectExtent(extent, samples);
    const bool finite = samples.empty() || (extent.has_value() && extent->finite);
    if (finite) return plan_;
    expected_.resize(row);
    stopped_ = true;
    return std::nullopt;
  }

  void Counted(uint64_t row, std::span<const uint64_t> counters,
               std::span<const std::byte> samples) override {
    ASSERT_EQ(row, rows_++);
    ASSERT_LT(row, expected_.size());
    const std::vector<std::byte>& expected = expected_[row];
    ASSERT_TRUE(std::ranges::equal(samples, expected)) << "row " << row;
    ASSERT_TRUE(std::ranges::equal(counters, Reference(expected))) << "row " << row;
  }

  bool stopped() const { return stopped_; }
  void ExpectDone() const {
    EXPECT_GE(phases_, 3);
    EXPECT_EQ(rows_, expected_.size());
    if (!cut_.has_value()) {
      EXPECT_EQ(counters_, Reference(samples_));
    }
  }

 private:
  void ExpectExtent(const std::optional<Extent>& extent, std::span<const std::byte> samples) const {
    const std::optional<Extent> expected = FindExtent(samples, plan_.type());
    const bool finite = samples.empty() || (expected.has_value() && expected->finite);
    EXPECT_EQ(extent.has_value() ? extent->finite : samples.empty(), finite);
    if (!finite || !expected.has_value() || !extent.has_value()) return;
    EXPECT_EQ(extent->least, expected->least);
    EXPECT_EQ(extent->greatest, expected->greatest);
    EXPECT_EQ(extent->constant, expected->constant);
  }
  std::vector<uint64_t> Reference(std::span<const std::byte> samples) const {
    const Fragment fragment = FragmentOf(samples);
    return ReferenceCounters({&fragment, 1}, plan_);
  }

  const std::span<const std::byte> samples_;
  const Plan plan_;
  const std::optional<RowCut> cut_;
  const bool asks_;
  std::vector<std::vector<std::byte>> expected_;  // the samples of each row
  int phases_ = 0;
  uint64_t rows_ = 0;
  bool stopped_ = false;
  std::vector<uint64_t> counters_;
};

class PhasesBackendContractTest : public BackendContractTest {
 protected:
  // The samples, at an odd address and in fragments that cut samples.
  void ExpectExecuted(const std::vector<std::byte>& samples, const Plan& plan,
                      const std::optional<RowCut>& cut, size_t fragment_bytes = 99'999,
                      bool asks = false) {
    SCOPED_TRACE(std::string(NameOf(plan.type())) + ", " + std::to_string(samples.size()) +
                 " bytes, " + std::to_string(plan.bin_count()) + " bins");
    const CutPayload payload(samples, fragment_bytes);
    const auto phases = std::make_shared<CheckedPhases>(payload.all(), plan, cut, asks);
    ASSERT_TRUE(backend_->info().phases.Cover(phases->needs()));
    auto batch = std::make_unique<Batch>();
    batch->bytes = samples.size();
    batch->items.push_back(
        {.fragments = payload.fragments, .bytes = samples.size(), .phases = phases});
    batch = Run(std::move(batch));
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    phases->ExpectDone();
    if (phases->stopped()) return;
    ExpectOwnKernel(batch->report.kernel);
    EXPECT_GT(batch->report.kernel_ns, 0U);
  }

  Plan PlanOf(SampleType type, uint32_t bins, bool tables = true) const {
    const Binning binning = *Binning::Even(bins, -20.0, 150.0);
    if (type == SampleType::kU8) return Plan::OfBytes(binning);
    return tables ? *Plan::Make(binning, type) : *Plan::Direct(binning, type);
  }
  // Finite ones.
  std::vector<std::byte> Samples(SampleType type, size_t count) {
    std::vector<std::byte> samples;
    AppendWithin(type, {-30, 160}, count, random_, samples);
    return samples;
  }
  static RowCut Windows(uint64_t window, uint64_t step = 0, uint32_t channels = 1) {
    return {.channels = channels, .kind = RowCut::Kind::kWindows, .window = window, .step = step};
  }
  static RowCut Lengths(std::vector<uint64_t> lengths, uint32_t channels = 1) {
    return {.channels = channels, .kind = RowCut::Kind::kLengths, .lengths = std::move(lengths)};
  }
  // More samples than a small lane holds at once.
  static size_t MoreThanALane(SampleType type) {
    return (size_t{160} << 10) / SampleBytes(type) / 12 * 12;
  }

  std::mt19937_64 random_{20261127};
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PhasesBackendContractTest);

TEST_P(PhasesBackendContractTest, TheExtentAndTheCountOfEachType) {
  for (const SampleType type : kAllTypes) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, MoreThanALane(type)}) {
      for (const bool tables : {false, true}) {
        ExpectExecuted(Samples(type, count), PlanOf(type, 100, tables), std::nullopt);
      }
    }
    std::vector<std::byte> any;
    AppendRandomBits(type, 3000, random_, any);
    ExpectExecuted(any, PlanOf(type, 2048, false), std::nullopt, 7);
    ExpectExecuted(any, PlanOf(type, 65536, false), std::nullopt);
  }
}

TEST_P(PhasesBackendContractTest, TheExtentOfSamplesThatDoublesDoNotHold) {
  for (const SampleType type : {SampleType::kI64, SampleType::kU64}) {
    for (const uint64_t from :
         {uint64_t{0}, (uint64_t{1} << 53) + 1, uint64_t{1} << 63,
          std::numeric_limits<uint64_t>::max() - 2, uint64_t{1'700'000'000'123'456'789}}) {
      for (const uint64_t distance : {0, 1, 2}) {
        const uint64_t numbers[] = {from, from + distance, from};
        const auto bytes = std::as_bytes(std::span(numbers));
        ExpectExecuted({bytes.begin(), bytes.end()}, PlanOf(type, 10, false), std::nullopt);
      }
    }
  }
}

TEST_P(PhasesBackendContractTest, SamplesThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float odd : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), -0.0F}) {
    std::vector<float> numbers(5000, 1.5F);
    numbers[4321] = odd;
    for (const bool alone : {false, true}) {
      const auto bytes =
          std::as_bytes(alone ? std::span(numbers).subspan(4321, 1) : std::span<float>(numbers));
      const std::vector<std::byte> samples(bytes.begin(), bytes.end());
      ExpectExecuted(samples, PlanOf(SampleType::kF32, 64, false), std::nullopt);
      ExpectExecuted(samples, PlanOf(SampleType::kF32, 64), Windows(1000));
    }
  }
}

TEST_P(PhasesBackendContractTest, RowsOfEachKind) {
  for (const SampleType type : kAllTypes) {
    const Plan plan = PlanOf(type, 37);
    for (const uint32_t channels : {1U, 2U, 3U, 6U, 12U}) {
      for (const RowCut& cut :
           {RowCut{.channels = channels}, Windows(100, 0, channels), Windows(70, 30, channels),
            Windows(10, 300, channels), Windows(100'000, 0, channels), Windows(1000, 1, channels),
            Lengths({0, 7, 0, 900, 93, 0}, channels)}) {
        ExpectExecuted(Samples(type, size_t{1000} * channels), plan, cut, 1001);
      }
      ExpectExecuted({}, plan, RowCut{.channels = channels});
      ExpectExecuted({}, plan, Windows(5, 1, channels));
      ExpectExecuted({}, plan, Lengths({0, 0}, channels));
      ExpectExecuted({}, plan, Lengths({}, channels));
    }
    ExpectExecuted(Samples(type, 1000), PlanOf(type, 37, /*tables=*/false), Windows(100));
    ExpectExecuted(std::vector<std::byte>(4000 * SampleBytes(type)), plan, Windows(500));
  }
}

TEST_P(PhasesBackendContractTest, RowsOverTheirOwnRanges) {
  for (const SampleType type : kAllTypes) {
    for (const bool tables : {false, true}) {
      const Plan plan = PlanOf(type, 37, tables);
      for (const uint32_t channels : {1U, 3U}) {
        for (const RowCut& cut : {RowCut{.channels = channels}, Windows(100, 0, channels),
                                  Windows(300, 77, channels), Lengths({0, 7, 993}, channels)}) {
          ExpectExecuted(Samples(type, size_t{1000} * channels), plan, cut, 1001, /*asks=*/true);
        }
        ExpectExecuted({}, plan, RowCut{.channels = channels}, 1, /*asks=*/true);
      }
    }
    const size_t count = MoreThanALane(type);
    ExpectExecuted(Samples(type, count), PlanOf(type, 300, /*tables=*/false),
                   Windows(count / 2 + 1), 99'999, /*asks=*/true);
  }
  std::vector<float> numbers(900, 1.5F);
  numbers[500] = std::numeric_limits<float>::infinity();
  const auto bytes = std::as_bytes(std::span(numbers));
  ExpectExecuted({bytes.begin(), bytes.end()}, PlanOf(SampleType::kF32, 64), Windows(300), 99'999,
                 /*asks=*/true);
}

TEST_P(PhasesBackendContractTest, WindowsOfBytes) {
  for (const uint64_t window : {1024, 2048, 4096}) {
    for (const uint64_t step : {uint64_t{0}, window, uint64_t{256}, uint64_t{100}}) {
      ExpectExecuted(Samples(SampleType::kU8, 30'000), Plan(), Windows(window, step));
    }
  }
}

TEST_P(PhasesBackendContractTest, LongPayloads) {
  std::vector<std::byte> samples(size_t{9} << 20);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::byte>(i * i >> 7);
  ExpectExecuted(samples, Plan(), Windows(1'000'000));
  ExpectExecuted(samples, Plan(), RowCut{.channels = 4});
}

TEST_P(PhasesBackendContractTest, RowsLongerThanALaneHolds) {
  for (const SampleType type : {SampleType::kU8, SampleType::kU16, SampleType::kF64}) {
    const size_t count = MoreThanALane(type);
    const Plan plan = PlanOf(type, 300);
    for (const uint32_t channels : {1U, 3U, 4U}) {
      const uint64_t pixels = count / channels;
      ExpectExecuted(Samples(type, count), plan, RowCut{.channels = channels});
      ExpectExecuted(Samples(type, count), plan, Windows(pixels / 2 + 1, 1 + pixels / 3, channels));
      ExpectExecuted(Samples(type, count), plan, Windows(1000, 0, channels));
      ExpectExecuted(Samples(type, count), plan,
                     Lengths({5, pixels * 3 / 4, 0, pixels - pixels * 3 / 4 - 5}, channels));
    }
  }
}

TEST_P(PhasesBackendContractTest, RowsOfMoreCountersThanALaneHas) {
  for (const SampleType type : {SampleType::kU8, SampleType::kF32}) {
    const size_t samples = LaneBytes(40'000) / SampleBytes(type) / 4 * 4;
    ExpectExecuted(Samples(type, samples), PlanOf(type, 1500), Windows(4));
    ExpectExecuted(Samples(type, samples), PlanOf(type, 1500),
                   RowCut{.channels = static_cast<uint32_t>(samples / 4)});
  }
  ExpectExecuted(Samples(SampleType::kI16, 900), PlanOf(SampleType::kI16, 50'000), Windows(30));
}

}  // namespace histogram::testing

#endif  // HISTOGRAM_TESTS_KERNELS_PHASES_BACKEND_CONTRACT_H_
