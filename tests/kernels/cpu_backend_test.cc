// The CPU backend: the contract of all backends, and what is its own.
#include "kernels/cpu/cpu_backend.h"

#include <histogram/usable_cores.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/cpu_tuning.h"
#include "kernels/cpu/registry.h"
#include "tests/kernels/backend_contract.h"
#include "tests/kernels/phases_backend_contract.h"
#include "tests/kernels/typed_backend_contract.h"

namespace histogram::testing {
namespace {

std::unique_ptr<Backend> Make(uint32_t lanes, const std::string& kernel = "", bool tune = false) {
  auto backend = cpu::MakeCpuBackend({.cpu_lanes = lanes, .force_kernel = kernel, .tune = tune});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

INSTANTIATE_TEST_SUITE_P(Cpu, BackendContractTest,
                         ::testing::Values(BackendMaker{"one_lane", [] { return Make(1); }},
                                           BackendMaker{"four_lanes", [] { return Make(4); }},
                                           BackendMaker{"default_lanes", [] { return Make(0); }},
                                           BackendMaker{"forced", [] { return Make(2, "scalar"); }},
                                           BackendMaker{"tuned", [] { return Make(2, "", true); }},
                                           BackendMaker{"tuned_forced",
                                                        [] { return Make(2, "runs8", true); }}),
                         BackendMakerName);

INSTANTIATE_TEST_SUITE_P(Cpu, TypedBackendContractTest,
                         ::testing::Values(BackendMaker{"two_lanes", [] { return Make(2); }}),
                         BackendMakerName);

INSTANTIATE_TEST_SUITE_P(Cpu, PhasesBackendContractTest,
                         ::testing::Values(BackendMaker{"two_lanes", [] { return Make(2); }}),
                         BackendMakerName);

TEST(CpuBackendTest, HasNoLimitOfItsOwn) {
  const std::unique_ptr<Backend> backend = Make(3);
  EXPECT_EQ(backend->info().name, "cpu");
  EXPECT_EQ(backend->info().lanes, 3U);
  EXPECT_EQ(backend->info().lane_bytes, UINT64_MAX);
  EXPECT_EQ(backend->info().lane_payloads, UINT32_MAX);
  EXPECT_EQ(backend->info().kind, BackendKind::kCpu);
  EXPECT_EQ(backend->info().device, cpu::ModelName());
}

TEST(CpuBackendTest, LanesDefaultToUsableCores) { EXPECT_EQ(Make(0)->info().lanes, UsableCores()); }

TEST(CpuBackendTest, RefusesTooManyLanes) {
  const auto backend = cpu::MakeCpuBackend({.cpu_lanes = cpu::kLanesMax + 1});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(backend.status()).field, "cpu_lanes");
  EXPECT_EQ(GetErrorDetail(backend.status()).limit, cpu::kLanesMax);
}

TEST(CpuBackendTest, EachKernelCountsWhereItIsForced) {
  for (const cpu::CpuKernel& kernel : cpu::ByteKernels()) {
    if (!kernel.supported()) continue;
    SCOPED_TRACE(kernel.name);
    const std::string name(kernel.name);
    ExpectCountsWith(name, *Make(1, name));
  }
}

TEST(CpuBackendTest, NeitherGathersNorTransfers) {
  const std::unique_ptr<Backend> backend = Make(1);
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 100000), 1000);
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  backend->Execute(*batch);
  EXPECT_EQ(batch->report.gather_ns, 0U);
  EXPECT_EQ(batch->report.transfer_ns, 0U);
}

// --- The dispatch table, as it is measured

std::vector<const cpu::CpuKernel*> SupportedKernels() {
  std::vector<const cpu::CpuKernel*> kernels;
  for (const cpu::CpuKernel& kernel : cpu::ByteKernels()) {
    if (kernel.supported()) kernels.push_back(&kernel);
  }
  return kernels;
}

TEST(CpuTuning, NothingIsMeasuredUnasked) { EXPECT_TRUE(Make(1)->choices().empty()); }

TEST(CpuTuning, MeasuresUpToAnySize) {
  const std::vector<KernelChoice> rows = cpu::MeasureTable(SupportedKernels(), 60000);
  ASSERT_FALSE(rows.empty());
  uint64_t previous = 0;
  for (const KernelChoice& row : rows) {
    EXPECT_EQ(row.backend, "cpu");
    EXPECT_GT(row.payload_bytes_max, previous);
    EXPECT_GT(row.cost_ns, 0U);
    EXPECT_GT(row.gigabytes_per_second, 0);
    previous = row.payload_bytes_max;
  }
  EXPECT_EQ(previous, UINT64_MAX);
}

TEST(CpuTuning, WithoutTimeThereAreNoRows) {
  EXPECT_TRUE(cpu::MeasureTable(SupportedKernels(), 0).empty());
}

TEST(CpuTuning, BackendFollowsItsTable) {
  const std::unique_ptr<Backend> backend = Make(1, "", true);
  const std::vector<KernelChoice> choices = backend->choices();
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 1 << 20));
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  backend->Execute(*batch);
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
