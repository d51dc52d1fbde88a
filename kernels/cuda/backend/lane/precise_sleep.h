// Sleeps of this thread that end when asked for.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_

#include <sys/prctl.h>

namespace histogram::cuda {

// By default Linux lets a sleep last 50 us longer than asked, to wake several threads at once. From
// this call on its thread, and threads that it starts, are spared that. A thread that waits for a
// Lane should call it.
inline void SleepPrecisely() { prctl(PR_SET_TIMERSLACK, 1UL); }

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_
