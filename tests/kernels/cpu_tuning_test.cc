// The CPU's dispatch table: measured, cached, brought from elsewhere.
#include "kernels/cpu/cpu_tuning.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/backend_contract.h"
#include "tests/test_path.h"

namespace histogram::testing {
namespace {

using cpu::CpuTuningOptions;

std::unique_ptr<Backend> MakeTuned() {
  return *cpu::MakeCpuBackend({.lanes = 2, .force_kernel = "", .tuning = {.tune = true}});
}
std::unique_ptr<Backend> MakeTunedForced() {
  return *cpu::MakeCpuBackend({.lanes = 2, .force_kernel = "runs8", .tuning = {.tune = true}});
}

INSTANTIATE_TEST_SUITE_P(TunedCpu, BackendContractTest,
                         ::testing::Values(BackendMaker{"tuned", MakeTuned},
                                           BackendMaker{"tuned_forced", MakeTunedForced}),
                         BackendMakerName);

class CpuTuningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const cpu::CpuKernel& kernel : cpu::Kernels()) {
      if (kernel.supported()) kernels_.push_back(&kernel);
    }
    directory_ = TestPath("tuning");
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::vector<KernelChoice> Table(const CpuTuningOptions& options) {
    auto rows = cpu::MakeCpuTable(kernels_, options, notes_);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  }
  std::string CachePath() const {
    return directory_ + "/" + tuning::CacheFileName(cpu::CpuTuningKey(kernels_));
  }
  // A table that no measurement would make.
  tuning::TuningTable Invented() const {
    tuning::TuningTable table;
    table.key = cpu::CpuTuningKey(kernels_);
    KernelChoice row;
    row.backend = "cpu";
    row.bin_count_max = kBinCountMax;
    row.payload_bytes_max = UINT64_MAX;
    row.payloads_max = UINT32_MAX;
    row.kernel = "scalar";
    row.cost_ns = 4242;
    row.gigabytes_per_second = 1;
    table.rows.push_back(row);
    return table;
  }

  std::vector<const cpu::CpuKernel*> kernels_;
  std::string directory_;
  std::vector<std::string> notes_;
};

TEST_F(CpuTuningTest, NothingIsMeasuredUnasked) {
  EXPECT_TRUE(Table({}).empty());
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CpuTuningTest, MeasuresUpToAnySize) {
  const std::vector<KernelChoice> rows = Table({.tune = true, .tune_ms_max = 60000});
  ASSERT_FALSE(rows.empty());
  uint64_t previous = 0;
  for (const KernelChoice& row : rows) {
    EXPECT_EQ(row.backend, "cpu");
    EXPECT_GT(row.payload_bytes_max, previous);
    EXPECT_GT(row.cost_ns, 0U);
    EXPECT_GT(row.gigabytes_per_second, 0);
    EXPECT_NE(cpu::FindKernel(row.kernel), nullptr);
    previous = row.payload_bytes_max;
  }
  EXPECT_EQ(previous, UINT64_MAX);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CpuTuningTest, CacheIsWrittenAndRead) {
  const std::vector<KernelChoice> measured =
      Table({.tune = true, .cache = directory_, .tune_ms_max = 60000});
  ASSERT_TRUE(std::filesystem::exists(CachePath()));
  // What is read is what lies there, not a new measurement.
  ASSERT_TRUE(tuning::SaveToCache(directory_, Invented()).ok());
  const std::vector<KernelChoice> cached = Table({.tune = true, .cache = directory_});
  ASSERT_EQ(cached.size(), 1U);
  EXPECT_EQ(cached[0].cost_ns, 4242U);
  EXPECT_TRUE(notes_.empty());
  // Also without tuning.
  EXPECT_EQ(Table({.cache = directory_}).size(), 1U);
}

TEST_F(CpuTuningTest, CacheForOtherKernelsIsNotUsed) {
  tuning::TuningTable other = Invented();
  kernels_.pop_back();
  ASSERT_TRUE(tuning::SaveToCache(directory_, other).ok());
  EXPECT_TRUE(Table({.cache = directory_}).empty());
}

TEST_F(CpuTuningTest, DamagedCacheIsNotedAndReplaced) {
  std::filesystem::create_directory(directory_);
  std::ofstream(CachePath()) << "damaged";
  const auto rows = Table({.tune = true, .cache = directory_, .tune_ms_max = 60000});
  EXPECT_GT(rows.size(), 1U);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_TRUE(absl::StrContains(notes_[0], "not used")) << notes_[0];
  EXPECT_EQ(Table({.cache = directory_}).size(), rows.size());
}

TEST_F(CpuTuningTest, CacheThatCannotBeWrittenIsNoted) {
  const auto rows = Table({.tune = true, .cache = directory_ + "/no/such", .tune_ms_max = 60000});
  EXPECT_GT(rows.size(), 1U);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_TRUE(absl::StrContains(notes_[0], "not written")) << notes_[0];
}

TEST_F(CpuTuningTest, WithoutTimeNothingIsKept) {
  const auto rows = Table({.tune = true, .cache = directory_, .tune_ms_max = 0});
  EXPECT_TRUE(rows.empty());
  EXPECT_FALSE(std::filesystem::exists(CachePath()));
}

TEST_F(CpuTuningTest, GivenTableGoesFirst) {
  std::filesystem::create_directory(directory_);
  const std::string path = directory_ + "/shipped";
  tuning::TuningTable other = Invented();
  other.key.device = "Some other CPU";
  other.rows.clear();
  std::ofstream(path) << tuning::FormatTuningTables({other, Invented()});
  const auto rows = Table({.tune = true, .cache = directory_, .table = path});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].cost_ns, 4242U);
  EXPECT_TRUE(notes_.empty());

  // One that has no table for this CPU is noted; one that is not there is an error.
  std::ofstream(path) << tuning::FormatTuningTables({other});
  EXPECT_TRUE(Table({.table = path}).empty());
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_TRUE(absl::StrContains(notes_[0], path)) << notes_[0];
  const auto missing = cpu::MakeCpuTable(kernels_, {.table = path + "x"}, notes_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CpuTuningTest, BackendFollowsItsTable) {
  ASSERT_TRUE(tuning::SaveToCache(directory_, Invented()).ok());
  const auto backend =
      cpu::MakeCpuBackend({.lanes = 1, .force_kernel = "", .tuning = {.cache = directory_}});
  ASSERT_TRUE(backend.ok()) << backend.status();
  ASSERT_EQ((*backend)->choices().size(), 1U);
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 1 << 20));
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  (*backend)->Execute(*batch);
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  EXPECT_EQ(batch->report.kernel, "scalar");
  fixture.ExpectExact();
}

}  // namespace
}  // namespace histogram::testing
