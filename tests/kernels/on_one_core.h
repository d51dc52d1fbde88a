// A function that runs on one core, and whether others ran beside it.
#ifndef HISTOGRAM_TESTS_KERNELS_ON_ONE_CORE_H_
#define HISTOGRAM_TESTS_KERNELS_ON_ONE_CORE_H_

#include <sched.h>

#include <ctime>
#include <functional>

namespace histogram {

inline double SecondsOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The scheduler keeps this thread, and those that `run` starts, on one core. Returns the calling
// thread's share of the processor time that `run` takes.
inline double ShareOfTimeOnOneCore(const std::function<void()>& run) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return -1;
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) return -1;
  const double thread = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
  const double process = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
  run();
  const double share = (SecondsOf(CLOCK_THREAD_CPUTIME_ID) - thread) /
                       (SecondsOf(CLOCK_PROCESS_CPUTIME_ID) - process);
  sched_setaffinity(0, sizeof(all), &all);
  return share;
}

}  // namespace histogram

#endif  // HISTOGRAM_TESTS_KERNELS_ON_ONE_CORE_H_
