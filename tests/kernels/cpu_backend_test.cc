// The CPU backend: the contract of all backends, and what is its own.
#include "kernels/cpu/cpu_backend.h"

#include <histogram/usable_cores.h>

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/registry.h"
#include "tests/kernels/backend_contract.h"
#include "tests/kernels/phases_backend_contract.h"
#include "tests/kernels/typed_backend_contract.h"

namespace histogram::testing {
namespace {

std::unique_ptr<Backend> Make(const cpu::CpuBackendOptions& options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = cpu::MakeCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, BackendContractTest,
    ::testing::Values(BackendMaker{"one_lane", [] { return Make({.lanes = 1}); }},
                      BackendMaker{"four_lanes", [] { return Make({.lanes = 4}); }},
                      BackendMaker{"default_lanes", [] { return Make({}); }},
                      BackendMaker{"forced",
                                   [] { return Make({.lanes = 2, .force_kernel = "runs8"}); }}),
    BackendMakerName);

INSTANTIATE_TEST_SUITE_P(Cpu, TypedBackendContractTest,
                         ::testing::Values(BackendMaker{"two_lanes",
                                                        [] { return Make({.lanes = 2}); }}),
                         BackendMakerName);

INSTANTIATE_TEST_SUITE_P(Cpu, PhasesBackendContractTest,
                         ::testing::Values(BackendMaker{"two_lanes",
                                                        [] { return Make({.lanes = 2}); }}),
                         BackendMakerName);

TEST(CpuBackendTest, HasNoLimitOfItsOwn) {
  const std::unique_ptr<Backend> backend = Make({.lanes = 3});
  EXPECT_EQ(backend->info().name, "cpu");
  EXPECT_EQ(backend->info().lanes, 3U);
  EXPECT_EQ(backend->info().lane_bytes, UINT64_MAX);
  EXPECT_EQ(backend->info().lane_payloads, UINT32_MAX);
  EXPECT_EQ(backend->info().kind, BackendKind::kCpu);
  EXPECT_EQ(backend->info().device, cpu::ModelName());
}

TEST(CpuBackendTest, LanesDefaultToUsableCores) {
  EXPECT_EQ(Make({})->info().lanes, UsableCores());
}

TEST(CpuBackendTest, RefusesTooManyLanes) {
  const auto backend = cpu::MakeCpuBackend({.lanes = cpu::kLanesMax + 1});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(backend.status()).field, "cpu_lanes");
  EXPECT_EQ(GetErrorDetail(backend.status()).limit, cpu::kLanesMax);
}

TEST(CpuBackendTest, RefusesUnknownForcedKernel) {
  const auto backend = cpu::MakeCpuBackend({.lanes = 1, .force_kernel = "tables9"});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(backend.status().message(), "'tables9'")) << backend.status();
  EXPECT_TRUE(absl::StrContains(backend.status().message(), "runs8")) << backend.status();
}

TEST(CpuBackendTest, ForcedKernelRunsWhateverTheSize) {
  const std::unique_ptr<Backend> backend = Make({.lanes = 1, .force_kernel = "scalar"});
  for (const size_t size : {10, 1000000}) {
    BatchFixture fixture;
    fixture.Add(MakePayload(Distribution::kUniform, size));
    const std::unique_ptr<Batch> batch = fixture.MakeBatch();
    backend->Execute(*batch);
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    EXPECT_EQ(batch->report.kernel, "scalar");
    fixture.ExpectExact();
  }
}

TEST(CpuBackendTest, EachKernelCountsWhereItIsForced) {
  for (const cpu::CpuKernel& kernel : cpu::Kernels()) {
    if (!kernel.supported()) continue;
    SCOPED_TRACE(kernel.name);
    const std::string name(kernel.name);
    ExpectCountsWith(name, *Make({.lanes = 1, .force_kernel = name}));
  }
}

TEST(CpuBackendTest, NeitherGathersNorTransfers) {
  const std::unique_ptr<Backend> backend = Make({.lanes = 1});
  BatchFixture fixture;
  fixture.Add(MakePayload(Distribution::kUniform, 100000), 1000);
  const std::unique_ptr<Batch> batch = fixture.MakeBatch();
  backend->Execute(*batch);
  EXPECT_EQ(batch->report.gather_ns, 0U);
  EXPECT_EQ(batch->report.transfer_ns, 0U);
}

}  // namespace
}  // namespace histogram::testing
