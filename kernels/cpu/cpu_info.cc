#include "kernels/cpu/cpu_info.h"

#include <histogram/usable_cores.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

namespace histogram {
namespace cpu {
namespace {

using OptionalText = std::optional<std::string>;

std::string_view Stripped(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Takes the text before the first `separator`, or all, off the front of `text`.
std::string_view TakeUpTo(char separator, std::string_view& text) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

// The cores that "150000 100000" (quota and period) allows; nullopt: no limit.
std::optional<double> Quotient(const std::string& text) {
  long long quota = 0, period = 0;
  char more = 0;
  const int read = std::sscanf(text.c_str(), "%lld %lld %c", &quota, &period, &more);
  if (read != 2 || quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
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
  // No streams of the standard library: they would double the size of the Python package.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  char block[4096];
  while (const size_t got = std::fread(block, 1, sizeof(block), file.get()))
    text.append(block, got);
  return std::ferror(file.get()) != 0 ? OptionalText() : std::move(text);
}

std::string ModelName(const FileReader& read) {
  const OptionalText info = read("/proc/cpuinfo");
  if (info.has_value()) {
    for (std::string_view lines = *info; !lines.empty();) {
      std::string_view value = TakeUpTo('\n', lines);
      const std::string_view key = Stripped(TakeUpTo(':', value));
      value = Stripped(value);
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
  for (std::string_view lines = *groups; !lines.empty();) {
    std::string_view line = TakeUpTo('\n', lines);
    const std::string_view id = TakeUpTo(':', line);
    const std::string controllers(TakeUpTo(':', line));
    const std::string group(line);
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
  cpu_set_t sets[16];  // of 16,384 processors: Linux refuses a set that is smaller than its own
  const bool known = sched_getaffinity(0, sizeof(sets), sets) == 0;
  const int count = known ? CPU_COUNT_S(sizeof(sets), sets) : 0;
  return count > 0 ? static_cast<uint32_t>(count)
                   : std::max(1U, std::thread::hardware_concurrency());
}

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
