#include "kernels/cpu/cpu_info.h"

#include <histogram/usable_cores.h>

#include <map>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace histogram::cpu {
namespace {

FileReader Files(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    if (file == files.end()) return std::nullopt;
    return file->second;
  };
}

TEST(CgroupTest, NothingMeansNoLimit) {
  EXPECT_EQ(CgroupCpuQuota(Files({})), std::nullopt);
  EXPECT_EQ(CgroupCpuQuota(Files({{"/proc/self/cgroup", "0::/\n"}})), std::nullopt);
}

TEST(CgroupTest, Version2) {
  EXPECT_EQ(CgroupCpuQuota(Files(
                {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "150000 100000\n"}})),
            1.5);
  EXPECT_EQ(CgroupCpuQuota(Files(
                {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "max 100000\n"}})),
            std::nullopt);
}

TEST(CgroupTest, Version2TakesTheTightestOfTheGroupsAbove) {
  const std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "0::/kube/pod/container\n"},
      {"/sys/fs/cgroup/kube/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/kube/pod/cpu.max", "200000 100000\n"},
      {"/sys/fs/cgroup/kube/pod/container/cpu.max", "800000 200000\n"}};
  EXPECT_EQ(CgroupCpuQuota(Files(files)), 2.0);
}

TEST(CgroupTest, Version1) {
  const std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(CgroupCpuQuota(Files(files)), 0.5);
}

// In a container the group carries its host's name, but only its own files are mounted.
TEST(CgroupTest, Version1MountedAtTheRoot) {
  const std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(CgroupCpuQuota(Files(files)), 3.0);
}

TEST(CgroupTest, HybridTakesTheTighter) {
  const std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "4:cpu:/\n0::/\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/unified/cpu.max", "100000 100000\n"}};
  EXPECT_EQ(CgroupCpuQuota(Files(files)), 1.0);
}

TEST(CgroupTest, NonsenseMeansNoLimit) {
  for (const char* text : {"", "\n", "max", "abc 100000", "100000 0", "-1 100000", "0 100000",
                           "1 2 3", "nan 100000", "100000 nan"}) {
    EXPECT_EQ(
        CgroupCpuQuota(Files({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", text}})),
        std::nullopt)
        << '\'' << text << '\'';
  }
  EXPECT_EQ(CgroupCpuQuota(Files({{"/proc/self/cgroup", "\n::\nx\n0::"}})), std::nullopt);
}

TEST(UsableCoresTest, QuotaRoundsUpAndAffinityBounds) {
  EXPECT_EQ(UsableCores(std::nullopt, 8), 8U);
  EXPECT_EQ(UsableCores(1.5, 8), 2U);
  EXPECT_EQ(UsableCores(0.1, 8), 1U);
  EXPECT_EQ(UsableCores(16.0, 8), 8U);
  EXPECT_EQ(UsableCores(1e30, 8), 8U);
  EXPECT_EQ(UsableCores(std::nullopt, 0), 1U);
}

TEST(UsableCoresTest, ThisMachineHasSome) {
  EXPECT_GE(AffinityCores(), 1U);
  EXPECT_GE(histogram::UsableCores(), 1U);
  EXPECT_LE(histogram::UsableCores(), AffinityCores());
}

TEST(ModelNameTest, ReadsTheFirstProcessor) {
  EXPECT_EQ(ModelName(Files({{"/proc/cpuinfo",
                              "processor\t: 0\nmodel\t\t: 17\n"
                              "model name\t: Example CPU: 9000 @ 1GHz \n"
                              "processor\t: 1\nmodel name\t: Other\n"}})),
            "Example CPU: 9000 @ 1GHz");
}

TEST(ModelNameTest, FallsBackToTheArchitecture) {
  EXPECT_FALSE(ModelName(Files({})).empty());
  EXPECT_FALSE(ModelName(Files({{"/proc/cpuinfo", "model name :\n"}})).empty());
  EXPECT_FALSE(ModelName().empty());
}

TEST(ReadWholeFileTest, ReadsOrSaysNothing) {
  EXPECT_EQ(ReadWholeFile("/no/such/file"), std::nullopt);
  const std::optional<std::string> groups = ReadWholeFile("/proc/self/stat");
  ASSERT_TRUE(groups.has_value());
  EXPECT_FALSE(groups->empty());
}

}  // namespace
}  // namespace histogram::cpu
