// What of the GPU backend needs no GPU: units of work, fault plans, error classes, the registry.
#include <numeric>
#include <set>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backends.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/fault_plan.h"
#include "kernels/cuda/registry/registry.h"
#include "kernels/error.h"

namespace histogram::testing {
namespace {

TEST(WorkTest, UnitsCoverEveryByte) {
  EXPECT_EQ(cuda::RoundsOf(0), 0U);
  EXPECT_EQ(cuda::RoundsOf(1), 1U);
  EXPECT_EQ(cuda::RoundsOf(cuda::kRoundBytes), 1U);
  EXPECT_EQ(cuda::RoundsOf(cuda::kRoundBytes + 1), 2U);
  EXPECT_EQ(cuda::RoundsOf(0xFFFFFFFFU), 1U << 22);
}

TEST(WorkTest, StartsAreTheRunningSum) {
  std::vector<cuda::PayloadDescriptor> payloads;
  for (const uint32_t bytes : {0U, 1U, 512U, 513U, 1U << 20}) payloads.push_back({0, bytes, 77});
  constexpr uint32_t kOverhead = 12;
  const uint32_t units = cuda::AssignUnits(absl::MakeSpan(payloads), kOverhead);
  uint32_t expected = 0;
  for (const cuda::PayloadDescriptor& payload : payloads) {
    EXPECT_EQ(payload.start, expected);
    expected += cuda::UnitsOf(payload.bytes, kOverhead);
  }
  EXPECT_EQ(units, expected);
  EXPECT_EQ(cuda::AssignUnits({}, kOverhead), 0U);
}

TEST(FaultPlanTest, CountsLaunchesFromOne) {
  const auto plan = cuda::FaultPlan::Parse("fail-launch=2,hang-launch=3,poison-launch=4");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kFail);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kHang);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kPoison);
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
}

TEST(FaultPlanTest, EmptyMeansNone) {
  const auto plan = cuda::FaultPlan::Parse("");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE((*plan)->no_driver() || (*plan)->driver_too_old() || (*plan)->no_device() ||
               (*plan)->out_of_memory());
  EXPECT_EQ((*plan)->NextLaunch(), cuda::LaunchFault::kNone);
}

TEST(FaultPlanTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"explode", "fail-launch", "fail-launch=0", "fail-launch=x",
                           "no-driver=1", "out-of-memory,explode"}) {
    const auto plan = cuda::FaultPlan::Parse(text);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(GetErrorDetail(plan.status()).field, "fault_injection") << text;
    EXPECT_TRUE(absl::StrContains(plan.status().message(), "poison-launch=N")) << plan.status();
  }
}

TEST(CudaStatusTest, ClassesOfErrors) {
  EXPECT_TRUE(cuda::ToStatus(cudaSuccess, "x").ok());
  EXPECT_TRUE(absl::IsUnavailable(cuda::ToStatus(cudaErrorIllegalAddress, "x")));
  EXPECT_TRUE(absl::IsUnavailable(cuda::ToStatus(cudaErrorECCUncorrectable, "x")));
  EXPECT_TRUE(absl::IsResourceExhausted(cuda::ToStatus(cudaErrorMemoryAllocation, "x")));
  const absl::Status launch = cuda::ToStatus(cudaErrorLaunchOutOfResources, "launch of y");
  EXPECT_TRUE(absl::IsInternal(launch));
  EXPECT_TRUE(absl::StrContains(launch.message(), "launch of y"));
  EXPECT_TRUE(absl::StrContains(launch.message(), "cudaErrorLaunchOutOfResources"));
}

TEST(RegistryTest, HasEveryKernelUnderItsName) {
  std::set<std::string> names;
  for (const KernelInfo& kernel : ListCudaKernels()) {
    EXPECT_EQ(kernel.backend, "cuda");
    EXPECT_FALSE(kernel.summary.empty());
    names.insert(kernel.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"naive_element", "naive_section", "naive_interleaved",
                                          "global_private", "shared_private", "shared_section",
                                          "register_private", "run_accumulator", "packed_thread",
                                          "cub_histogram", "lane_private", "warp_batch",
                                          "quad_batch", "one_block"}));
  EXPECT_EQ(cuda::FindKernel("no_such_kernel"), nullptr);
}

}  // namespace
}  // namespace histogram::testing
