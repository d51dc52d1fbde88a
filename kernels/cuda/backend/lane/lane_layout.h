// Shared by the files of a lane, and by their users: places in the control buffer, a clock, and
// sleep.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_LAYOUT_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_LAYOUT_H_

#include <sys/prctl.h>

#include <chrono>
#include <cstdint>

#include "kernels/cuda/plan/typed_plan.h"

namespace histogram::cuda {

// Counters of a batch of typed samples: those of all its payloads. They take 4 MiB a lane, on host
// and device; payloads with more go to the CPU. Not measured apart.
inline constexpr uint32_t kLaneCounters = uint32_t{1} << 19;

// Offsets in a lane's control buffer, a cache line each: the completion flag, what lets a kernel go
// that fault injection made hang, and the extent of samples.
inline constexpr uint64_t kFlagAt = 0;
inline constexpr uint64_t kReleaseAt = 128;
inline constexpr uint64_t kExtentAt = 256;
inline constexpr uint64_t kControlBytes = 384;

inline constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// A portion's bytes begin here, behind its header and descriptors.
inline constexpr uint64_t PayloadsBegin(uint64_t portion_begin, uint64_t pieces) {
  return AlignUp(portion_begin + sizeof(BatchHeader) + pieces * sizeof(PayloadDescriptor), 128);
}

// By default Linux lets a sleep last 50 us longer than asked, to wake several threads at once. From
// this call on its thread, and threads that it starts, are spared that. A thread that waits for a
// Lane should call it.
inline void SleepPrecisely() { prctl(PR_SET_TIMERSLACK, 1UL); }

inline uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_LANE_LAYOUT_H_
