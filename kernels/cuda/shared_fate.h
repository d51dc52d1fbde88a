// What the GPUs of one process share: a kernel that strays (an illegal address, an assertion) does
// not only spoil the context it ran in. CUDA leaves the whole process in an inconsistent state then
// and demands that it ends: no GPU of the process may be used, or believed, any more.
#ifndef HISTOGRAM_KERNELS_CUDA_SHARED_FATE_H_
#define HISTOGRAM_KERNELS_CUDA_SHARED_FATE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/mutex.h"

namespace histogram::cuda {

// Thread-safe.
class SharedFate {
 public:
  using TakeDown = std::function<void(const std::string& why)>;

  // `take_down` is called when the process is spoiled, at once where it already is. It must put up
  // with its backend being gone.
  void Join(TakeDown take_down) {
    std::string why;
    {
      MutexLock lock(mutex_);
      if (!spoiled_) {
        members_.push_back(std::move(take_down));
        return;
      }
      why = why_;
    }
    take_down(why);
  }

  // Takes all members down, on this thread; only the first call does. REQUIRES: the caller holds
  // nothing that a member's TakeDown takes.
  void Spoil(const std::string& why) {
    std::vector<TakeDown> members;
    {
      MutexLock lock(mutex_);
      if (std::exchange(spoiled_, true)) return;
      why_ = why;
      members.swap(members_);
    }
    for (const TakeDown& take_down : members) take_down(why);
  }

 private:
  Mutex mutex_;
  bool spoiled_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  std::vector<TakeDown> members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_SHARED_FATE_H_
