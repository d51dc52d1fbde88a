#include "kernels/backend_factory.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/error.h"

namespace histogram {
namespace {

using Choice = BackendOptions::Choice;

absl::StatusOr<BackendSet> Make(Choice choice, uint32_t cpu_lanes,
                                const std::string& force_kernel = "") {
  BackendOptions options;
  options.choice = choice;
  options.cpu_lanes = cpu_lanes;
  options.force_kernel = force_kernel;
  options.tune = false;
  return MakeBackends(options);
}

TEST(BackendFactoryTest, AutoAlwaysEndsWithTheCpu) {
  const absl::StatusOr<BackendSet> set = Make(Choice::kAuto, 1);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_FALSE(set->backends.empty());
  EXPECT_EQ(set->backends.back()->info().name, "cpu");
  if (set->backends.size() == 1) {
    EXPECT_FALSE(set->notes.empty()) << "why no GPU is used must be said";
  }
}

TEST(BackendFactoryTest, CpuAndItsKernelsAreOnlyTheCpu) {
  for (const auto& set : {Make(Choice::kCpu, 2), Make(Choice::kAuto, 2, "scalar")}) {
    ASSERT_TRUE(set.ok()) << set.status();
    ASSERT_EQ(set->backends.size(), 1U);
    EXPECT_EQ(set->backends[0]->info().name, "cpu");
    EXPECT_EQ(set->backends[0]->info().lanes, 2U);
  }
  EXPECT_TRUE(Make(Choice::kCpu, 2)->notes.empty());
}

TEST(BackendFactoryTest, CudaWithoutAGpuSaysWhy) {
  const absl::StatusOr<BackendSet> set = Make(Choice::kCuda, 1);
  if (set.ok()) {
    EXPECT_TRUE(absl::StartsWith(set->backends[0]->info().name, "cuda:"));
    return;
  }
  EXPECT_EQ(set.status().code(), absl::StatusCode::kFailedPrecondition);
  if (!CudaCompiledIn()) {
    EXPECT_TRUE(absl::StrContains(set.status().message(), "no CUDA backend")) << set.status();
  }
}

TEST(BackendFactoryTest, UnknownKernelListsTheValidOnes) {
  for (const Choice choice : {Choice::kAuto, Choice::kCpu, Choice::kCuda}) {
    const absl::StatusOr<BackendSet> set = Make(choice, 1, "fastest");
    ASSERT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(set.status().message(), "'fastest'"));
    for (const KernelInfo& kernel : ListKernels()) {
      EXPECT_TRUE(absl::StrContains(set.status().message(), kernel.name)) << set.status();
    }
    EXPECT_EQ(GetErrorDetail(set.status()).field, "force_kernel");
  }
}

TEST(BackendFactoryTest, CudaCannotRunACpuKernel) {
  const absl::StatusOr<BackendSet> set = Make(Choice::kCuda, 1, "scalar");
  EXPECT_EQ(set.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace histogram
