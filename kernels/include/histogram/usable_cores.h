// How many cores this process can keep busy.
#ifndef HISTOGRAM_USABLE_CORES_H_
#define HISTOGRAM_USABLE_CORES_H_

#include <cstdint>

namespace histogram {

// The cores on which the scheduler may run the calling thread, but no more than the CPU time in
// cores, rounded up, that the process's control groups (a container's limit) allow; at least 1. The
// control groups are read once. Thread-safe.
uint32_t UsableCores();

}  // namespace histogram

#endif  // HISTOGRAM_USABLE_CORES_H_
