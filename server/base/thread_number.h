// A small number for each thread, to give it a part of its own of something that many threads use.
#ifndef HISTOGRAM_SERVER_BASE_THREAD_NUMBER_H_
#define HISTOGRAM_SERVER_BASE_THREAD_NUMBER_H_

#include <atomic>
#include <cstddef>

namespace histogram::server {

// Threads are numbered from 0 on, in the order in which they first ask. Thread-safe.
inline size_t ThreadNumber() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BASE_THREAD_NUMBER_H_
