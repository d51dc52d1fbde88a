// Work on as many threads as can be had.
//
// Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_PARALLEL_H_
#define HISTOGRAM_KERNELS_PARALLEL_H_

#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace histogram::internal {

// Calls work(part) for each part below `parts`: the first on this thread, each other on a thread of
// its own. Parts for which no thread can be had run on this thread. Rethrows what a part has thrown
// after all parts have ended.
inline void InParallel(size_t parts, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> failures(parts);
  const auto guarded = [&](size_t part) {
    try {
      work(part);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(parts);
    size_t started = 1;
    try {
      for (; started < parts; ++started) others.emplace_back(guarded, started);
    } catch (const std::exception&) {  // std::system_error or std::bad_alloc: no more threads
    }
    guarded(0);
    for (size_t part = started; part < parts; ++part) guarded(part);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_PARALLEL_H_
