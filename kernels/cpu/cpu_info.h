// The processor's name, and the number of its cores that this process may use.
//
// Thread-safe: the functions have no state. Parsers take a FileReader, so that tests can stand for
// any machine.
#ifndef HISTOGRAM_KERNELS_CPU_CPU_INFO_H_
#define HISTOGRAM_KERNELS_CPU_CPU_INFO_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace histogram::cpu {

// Returns the contents of the file at a path; nullopt if it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

// Reads from the file system.
std::optional<std::string> ReadWholeFile(const std::string& path);

// The processor's model from /proc/cpuinfo; the architecture's name if it has none.
std::string ModelName(const FileReader& read = ReadWholeFile);

// The CPU time, in cores, that this process's control groups allow: the tightest limit of its group
// and the groups above, of version 2. nullopt: no limit.
std::optional<double> CgroupCpuQuota(const FileReader& read = ReadWholeFile);

// The cores on which the scheduler may run the calling thread; at least 1.
uint32_t AffinityCores();

// The quota rounded up, at most the affinity's cores, at least 1.
uint32_t UsableCores(std::optional<double> quota, uint32_t affinity_cores);

}  // namespace histogram::cpu

#endif  // HISTOGRAM_KERNELS_CPU_CPU_INFO_H_
