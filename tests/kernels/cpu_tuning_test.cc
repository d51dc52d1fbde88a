// The CPU's dispatch table, as it is measured.
#include "kernels/cpu/cpu_tuning.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/backend_contract.h"

namespace histogram::testing {
namespace {

std::unique_ptr<Backend> MakeTuned() { return *cpu::MakeCpuBackend({.lanes = 2, .tune = true}); }
std::unique_ptr<Backend> MakeTunedForced() {
  return *cpu::MakeCpuBackend({.lanes = 2, .force_kernel = "runs8", .tune = true});
}

INSTANTIATE_TEST_SUITE_P(TunedCpu, BackendContractTest,
                         ::testing::Values(BackendMaker{"tuned", MakeTuned},
                                           BackendMaker{"tuned_forced", MakeTunedForced}),
                         BackendMakerName);

std::vector<const cpu::CpuKernel*> SupportedKernels() {
  std::vector<const cpu::CpuKernel*> kernels;
  for (const cpu::CpuKernel& kernel : cpu::Kernels()) {
    if (kernel.supported()) kernels.push_back(&kernel);
  }
  return kernels;
}

TEST(CpuTuning, NothingIsMeasuredUnasked) {
  const auto backend = cpu::MakeCpuBackend({.lanes = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_TRUE((*backend)->choices().empty());
}

TEST(CpuTuning, MeasuresUpToAnySize) {
  const std::vector<KernelChoice> rows = cpu::MeasureTable(SupportedKernels(), 60000);
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
}

TEST(CpuTuning, WithoutTimeThereAreNoRows) {
  EXPECT_TRUE(cpu::MeasureTable(SupportedKernels(), 0).empty());
}

TEST(CpuTuning, BackendFollowsItsTable) {
  const auto backend = cpu::MakeCpuBackend({.lanes = 1, .tune = true});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::vector<KernelChoice> choices = (*backend)->choices();
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 1 << 20));
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  (*backend)->Execute(*batch);
  ASSERT_TRUE(batch->status.ok()) << batch->status;
  const auto row = std::find_if(choices.begin(), choices.end(), [](const KernelChoice& each) {
    return each.payload_bytes_max >= 1 << 20;
  });
  fixture.ExpectExact();
  if (row == choices.end()) GTEST_SKIP() << "this machine was too busy to measure 1 MiB";
  EXPECT_EQ(batch->report.kernel, row->kernel);
}

}  // namespace
}  // namespace histogram::testing
