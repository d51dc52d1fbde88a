#include "kernels/cpu/cpu_info.h"

#include <histogram/usable_cores.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <thread>

namespace histogram {
namespace cpu {
namespace {

using OptionalText = std::optional<std::string>;

std::string_view Stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The cores that "150000 100000" (quota and period) allows; nullopt: no limit.
std::optional<double> Quotient(const std::string& text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  std::string more;
  if (!(words >> quota >> period) || words >> more) return std::nullopt;
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// A group's limit in cores; nullopt: none.
std::optional<double> ReadVersion2(const FileReader& read, const std::string& directory) {
  const OptionalText text = read(directory + "/cpu.max");  // "150000 100000", "max 100000"
  return text.has_value() ? Quotient(*text) : std::nullopt;
}

std::optional<double> ReadVersion1(const FileReader& read, const std::string& directory) {
  const OptionalText quota = read(directory + "/cpu.cfs_quota_us");
  const OptionalText period = read(directory + "/cpu.cfs_period_us");
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  return Quotient(*quota + " " + *period);
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
    std::istringstream lines(*info);
    for (std::string line; std::getline(lines, line);) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      const std::string_view key = Stripped(std::string_view(line).substr(0, colon));
      const std::string_view value = Stripped(std::string_view(line).substr(colon + 1));
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
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string id = line.substr(0, first), group = line.substr(second + 1);
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (id == "0" && controllers.empty()) {
      take(Tightest("/sys/fs/cgroup", group, read, ReadVersion2));
      take(Tightest("/sys/fs/cgroup/unified", group, read, ReadVersion2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      take(Tightest("/sys/fs/cgroup/" + controllers, group, read, ReadVersion1));
      if (controllers != "cpu") take(Tightest("/sys/fs/cgroup/cpu", group, read, ReadVersion1));
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

uint32_t DefaultLanes() { return DefaultLanes(histogram::UsableCores()); }
uint32_t DefaultLanes(uint32_t usable_cores) { return std::max(2U, usable_cores); }

uint32_t UsableCores(std::optional<double> quota, uint32_t affinity_cores) {
  uint32_t cores = std::max(1U, affinity_cores);
  if (quota.has_value() && std::ceil(*quota) < cores) {
    cores = std::max(1U, static_cast<uint32_t>(std::ceil(*quota)));
  }
  return cores;
}

}  // namespace cpu

uint32_t UsableCores() {
  // A call for a short array takes less time than to read this.
  static const std::optional<double> quota = cpu::CgroupCpuQuota();
  return cpu::UsableCores(quota, cpu::AffinityCores());
}

}  // namespace histogram
