// The lanes of one GPU at work: a thread for each, and what happens when the GPU is lost.
//
// A batch belongs to the lane that took it. The backend goes down by MarkDown, or by an error that
// poisons the context. MarkDown then takes the batches that wait for the device from their lanes. A
// thread of its own hands them back UNAVAILABLE, whether or not the device ever answers. A
// lane that is stuck there is left behind with its buffers. A lane that is copying from the
// fragments keeps its batch until it has let go of them. Of a backend that is down nothing is
// freed: its context may be poisoned. Where the error is one after which the process must end, the
// backends of all GPUs that share a SharedFate go down with this one.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_THREADS_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_THREADS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "kernels/backend.h"
#include "kernels/cuda/backend/lane/lane.h"
#include "kernels/mutex.h"
#include "kernels/tuning/selector.h"

namespace histogram::cuda {

struct LanesShared;

// What the GPUs of one process share. After an error of a kernel, such as an illegal address or a
// failed assertion, CUDA leaves the whole process in an inconsistent state, and demands that it
// ends: results from any GPU of this process are invalid from then on. Thread-safe.
class SharedFate {
 public:
  void Join(const std::shared_ptr<LanesShared>& member);
  // Takes all members down, on this thread. REQUIRES: the caller holds no member's mutex.
  void Spoil(const std::string& why);

 private:
  Mutex mutex_;
  // Holds on to no backend: one that is gone has nothing to take down.
  std::vector<std::weak_ptr<LanesShared>> members_ ABSL_GUARDED_BY(mutex_);
};

// All that lane threads use. Shared with each of them, so that one that is stuck in the driver may
// outlive the backend.
struct LanesShared {
  enum class Stage : uint8_t { kIdle, kOnHost, kOnDevice, kAbandoned, kGone };
  struct Task {
    std::unique_ptr<Batch> batch;
    Backend::Done done;
  };
  struct Slot {
    std::unique_ptr<Lane> lane;  // used by the slot's thread only
    Stage stage = Stage::kIdle;
    Task task;
    CondVar woken;  // given a task, or stopping
  };

  BackendInfo info;
  int device_index = 0;
  std::unique_ptr<const tuning::Selector> selector;
  std::atomic<bool> up{true};
  std::shared_ptr<SharedFate> fate;

  Mutex mutex;
  CondVar orphaned, gone;
  // Lanes that sleep, the last to do so last: it is woken first. Its thread, buffers and stream are
  // still in the caches, which the others' may no longer be.
  std::vector<Slot*> idle ABSL_GUARDED_BY(mutex);
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);    // for which no lane was idle
  std::deque<Task> orphans ABSL_GUARDED_BY(mutex);  // to be handed back UNAVAILABLE
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool reaper_stopping ABSL_GUARDED_BY(mutex) = false;
  std::string why_down ABSL_GUARDED_BY(mutex);
  std::vector<Slot> slots;  // stage and task guarded by mutex; the vector itself never changes
};

// The backend goes down: batches that wait for the device are handed back UNAVAILABLE. Only the
// first reason counts. Thread-safe.
void MarkDown(LanesShared& shared, const std::string& why);

// The threads. Thread-safe.
class LaneThreads {
 public:
  // REQUIRES: all that is not guarded in `shared` is set, and stays as it is.
  explicit LaneThreads(std::shared_ptr<LanesShared> shared);
  // Ends the threads. Waits for all but those that are stuck in the driver. The GPU is this
  // thread's current device then, since the holder of the last reference to `shared` frees the
  // lanes from it.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  // As Backend::Submit.
  void Submit(std::unique_ptr<Batch> batch, Backend::Done done);

 private:
  std::shared_ptr<LanesShared> shared_;
  std::thread reaper_;
  std::vector<std::thread> threads_;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_LANE_THREADS_H_
