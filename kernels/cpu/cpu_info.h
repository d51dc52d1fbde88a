// What the processor is called, and how many of its cores this process may use.
//
// Thread-safe: functions without state. Those that parse take the contents, so that tests can bring
// any machine's.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_INFO_H_
#define HISTOGRAM_KERNELS_CPU_CPU_INFO_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace histogram::cpu {

// The contents of the file at a path; nothing where it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

// Reads from the file system.
std::optional<std::string> ReadWholeFile(const std::string& path);

// The processor's model out of /proc/cpuinfo; the architecture's name where it holds none.
std::string ModelName(const FileReader& read = ReadWholeFile);

// Cores' worth of CPU time that this process's control groups allow (versions 1 and 2, the tightest
// of the group and the groups above it); nothing where there is no limit.
std::optional<double> CgroupCpuQuota(const FileReader& read = ReadWholeFile);

// Cores that the scheduler may place this process on; at least 1.
uint32_t AffinityCores();

// Lanes that keep the machine busy without being throttled: the quota rounded up, at most the
// affinity's cores, at least 1.
uint32_t UsableCores();
uint32_t UsableCores(std::optional<double> quota, uint32_t affinity_cores);
// As many lanes as UsableCores(), but two at least: beside a second thread that has received a
// payload a single lane is taken, and what is then handed to another thread costs more than taking
// turns.
uint32_t DefaultLanes();
uint32_t DefaultLanes(uint32_t usable_cores);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_INFO_H_
