// Work on as many threads as can be had.
//
// Thread-safe: a function without state.
#ifndef HISTOGRAM_KERNELS_PARALLEL_H_
#define HISTOGRAM_KERNELS_PARALLEL_H_

#include <cstddef>
#include <functional>

namespace histogram::internal {

// Calls work(part) for each part below `parts`: the first on this thread, each other on a thread of
// its own. Parts for which no thread can be had run on this thread. Rethrows what a part has thrown
// after all parts have ended.
void InParallel(size_t parts, const std::function<void(size_t)>& work);

}  // namespace histogram::internal

#endif  // HISTOGRAM_KERNELS_PARALLEL_H_
