// Sleeps of this thread that end when asked for.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_

#include <sys/prctl.h>

namespace histogram::cuda {

// By default Linux lets a sleep last 50 us longer than asked, to wake several threads at once. For
// as long as this object lives, its thread, and threads that it starts, are spared that. A thread
// that waits for a Lane should have one. Belongs to the thread that made it.
class PreciseSleep {
 public:
  PreciseSleep() : slack_before_ns_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1UL); }
  ~PreciseSleep() {
    // 0 would mean the default of the thread.
    if (slack_before_ns_ > 0) {
      prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_before_ns_));
    }
  }
  PreciseSleep(const PreciseSleep&) = delete;
  PreciseSleep& operator=(const PreciseSleep&) = delete;

 private:
  const int slack_before_ns_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_PRECISE_SLEEP_H_
