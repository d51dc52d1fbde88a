#include "kernels/cpu/cpu_info.h"

#include <histogram/usable_cores.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string_view>
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

// Lowers `tightest` to the limit in cores that a group's directory states, if it states one.
void Tighten(const FileReader& read_file, const std::string& directory,
             std::optional<double>& tightest) {
  const OptionalText text = read_file(directory + "/cpu.max");  // "150000 100000", "max 100000"
  long long quota = 0, period = 0;
  char more = 0;
  const int read =
      text.has_value() ? std::sscanf(text->c_str(), "%lld %lld %c", &quota, &period, &more) : 0;
  if (read != 2 || quota <= 0 || period <= 0) return;
  const double cores = static_cast<double>(quota) / static_cast<double>(period);
  tightest = std::min(tightest.value_or(cores), cores);
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
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "unknown processor";
}

std::optional<double> CgroupCpuQuota(const FileReader& read) {
  const OptionalText groups = read("/proc/self/cgroup");  // lines "ID:CONTROLLERS:GROUP"
  if (!groups.has_value()) return std::nullopt;
  std::optional<double> tightest;
  for (std::string_view lines = *groups; !lines.empty();) {
    const std::string_view line = TakeUpTo('\n', lines);
    if (!line.starts_with("0::")) continue;
    // The group and every group above it. The last one is the mount itself: a container may see its
    // host's group names, but only its own group's files there.
    for (std::string group(line.substr(3));;) {
      while (!group.empty() && group.back() == '/') group.pop_back();
      Tighten(read, "/sys/fs/cgroup" + group, tightest);
      if (group.empty()) break;
      const size_t slash = group.rfind('/');
      group.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return tightest;
}

uint32_t AffinityCores() {
  // Of 16,384 processors: Linux refuses a set that is smaller than its own.
  cpu_set_t sets[16] = {};
  sched_getaffinity(0, sizeof(sets), sets);
  return static_cast<uint32_t>(std::max(1, CPU_COUNT_S(sizeof(sets), sets)));
}

uint32_t UsableCores(std::optional<double> quota, uint32_t affinity_cores) {
  const uint32_t most = std::max(1U, affinity_cores);
  return static_cast<uint32_t>(std::clamp<double>(std::ceil(quota.value_or(most)), 1, most));
}

}  // namespace cpu

uint32_t UsableCores() {
  // A call for a short array takes less time than to read this.
  static const std::optional<double> quota = cpu::CgroupCpuQuota();
  return cpu::UsableCores(quota, cpu::AffinityCores());
}

}  // namespace histogram
