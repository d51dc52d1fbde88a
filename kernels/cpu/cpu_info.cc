#include "kernels/cpu/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace histogram::cpu {
namespace {

using OptionalText = std::optional<std::string>;

std::optional<double> Number(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(absl::StripAsciiWhitespace(text), &value)) return std::nullopt;
  return value;
}

// A group's limit in cores; nullopt: none.
std::optional<double> Cores(std::optional<double> quota, std::optional<double> period) {
  if (!quota.has_value() || !period.has_value() || !(*quota > 0) || !(*period > 0)) {
    return std::nullopt;  // "max", -1: no limit
  }
  return *quota / *period;
}

std::optional<double> ReadVersion2(const FileReader& read, const std::string& directory) {
  const OptionalText text = read(directory + "/cpu.max");  // "150000 100000", "max 100000"
  if (!text.has_value()) return std::nullopt;
  const std::vector<std::string> words =
      absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (words.size() != 2) return std::nullopt;
  return Cores(Number(words[0]), Number(words[1]));
}

std::optional<double> ReadVersion1(const FileReader& read, const std::string& directory) {
  const OptionalText quota = read(directory + "/cpu.cfs_quota_us");
  const OptionalText period = read(directory + "/cpu.cfs_period_us");
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  return Cores(Number(*quota), Number(*period));
}

// The tightest limit of `group` below `mount` and of every group above it. The last one is the
// mount itself: a container may see its host's group names, but only its own group's files there.
std::optional<double> Tightest(const std::string& mount, std::string group, const FileReader& read,
                               std::optional<double> (*read_group)(const FileReader&,
                                                                   const std::string&)) {
  std::optional<double> tightest;
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    const std::optional<double> cores = read_group(read, mount + group);
    if (cores.has_value()) tightest = std::min(tightest.value_or(*cores), *cores);
    if (group.empty()) return tightest;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

OptionalText ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return std::nullopt;
  return std::move(text).str();
}

std::string ModelName(const FileReader& read) {
  const OptionalText info = read("/proc/cpuinfo");
  if (info.has_value()) {
    for (const absl::string_view line : absl::StrSplit(*info, '\n')) {
      const std::pair<absl::string_view, absl::string_view> field =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      const absl::string_view key = absl::StripAsciiWhitespace(field.first);
      const absl::string_view value = absl::StripAsciiWhitespace(field.second);
      if ((key == "model name" || key == "cpu model") && !value.empty()) return std::string(value);
    }
  }
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown processor";
#endif
}

std::optional<double> CgroupCpuQuota(const FileReader& read) {
  const OptionalText groups = read("/proc/self/cgroup");  // lines "ID:CONTROLLERS:GROUP"
  if (!groups.has_value()) return std::nullopt;
  std::optional<double> tightest;
  const auto take = [&tightest](std::optional<double> cores) {
    if (cores.has_value()) tightest = std::min(tightest.value_or(*cores), *cores);
  };
  for (const absl::string_view line : absl::StrSplit(*groups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      take(Tightest("/sys/fs/cgroup", parts[2], read, ReadVersion2));
      take(Tightest("/sys/fs/cgroup/unified", parts[2], read, ReadVersion2));
      continue;
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "cpu") continue;
      take(Tightest("/sys/fs/cgroup/" + parts[1], parts[2], read, ReadVersion1));
      if (parts[1] != "cpu") take(Tightest("/sys/fs/cgroup/cpu", parts[2], read, ReadVersion1));
    }
  }
  return tightest;
}

uint32_t AffinityCores() {
  // Tries larger and larger sets: the kernel refuses a set that is smaller than its own.
  for (int cores_max = 1024; cores_max <= (1 << 20); cores_max *= 4) {
    cpu_set_t* set = CPU_ALLOC(cores_max);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(cores_max);
    CPU_ZERO_S(size, set);
    const int result = sched_getaffinity(0, size, set);
    const int refused = result != 0 ? errno : 0;
    const int count = result == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return static_cast<uint32_t>(count);
    if (refused != EINVAL) break;
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

uint32_t UsableCores() { return UsableCores(CgroupCpuQuota(), AffinityCores()); }

uint32_t DefaultLanes() { return DefaultLanes(UsableCores()); }
uint32_t DefaultLanes(uint32_t usable_cores) { return std::max(2U, usable_cores); }

uint32_t UsableCores(std::optional<double> quota, uint32_t affinity_cores) {
  uint32_t cores = std::max(1U, affinity_cores);
  if (quota.has_value() && std::ceil(*quota) < cores) {
    cores = std::max(1U, static_cast<uint32_t>(std::ceil(*quota)));
  }
  return cores;
}

}  // namespace histogram::cpu
