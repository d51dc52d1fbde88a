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

TEST(CgroupTest, TheTightestQuotaOfTheGroupCounts) {
  using Text = std::map<std::string, std::string>;
  const std::string group = "/proc/self/cgroup", sys = "/sys/fs/cgroup/";
  const auto expect = [](std::optional<double> quota, const Text& files) {
    EXPECT_EQ(CgroupCpuQuota(Files(files)), quota) << ::testing::PrintToString(files);
  };
  expect(std::nullopt, {});
  expect(std::nullopt, {{group, "0::/\n"}});
  // And the groups above.
  expect(1.5, {{group, "0::/\n"}, {sys + "cpu.max", "150000 100000\n"}});
  expect(std::nullopt, {{group, "0::/\n"}, {sys + "cpu.max", "max 100000\n"}});
  expect(2.0, {{group, "0::/kube/pod/container\n"},
               {sys + "kube/cpu.max", "max 100000\n"},
               {sys + "kube/pod/cpu.max", "200000 100000\n"},
               {sys + "kube/pod/container/cpu.max", "800000 200000\n"}});
  // In a container the group carries its host's name, but only its own files are mounted.
  expect(3.0, {{group, "0::/docker/abc\n"}, {sys + "cpu.max", "300000 100000\n"}});
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

}  // namespace
}  // namespace histogram::cpu
