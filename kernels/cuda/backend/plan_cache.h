// The plans that a GPU's lanes counted by most recently: to prove how bins are found takes as long
// as to make the plan.
//
// Thread-safe.
#ifndef HISTOGRAM_KERNELS_CUDA_BACKEND_PLAN_CACHE_H_
#define HISTOGRAM_KERNELS_CUDA_BACKEND_PLAN_CACHE_H_

#include <histogram/plan.h>

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "kernels/cuda/plan/typed_plan.h"
#include "kernels/mutex.h"

namespace histogram::cuda {

class PlanCache {
 public:
  // Host memory that a GPU's cache takes.
  static constexpr uint64_t kBytesMax = uint64_t{64} << 20;

  // Makes it where it is not there; copies of one Plan are one plan. A plan that alone takes more
  // than the cache may is not kept.
  std::shared_ptr<const TypedPlan> Get(const Plan& plan);

 private:
  struct Entry {
    std::shared_ptr<const TypedPlan> plan;  // keeps the Plan, and so its address, too
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the last used first
  std::unordered_map<const internal::PlanData*, Entries::iterator> index_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace histogram::cuda

#endif  // HISTOGRAM_KERNELS_CUDA_BACKEND_PLAN_CACHE_H_
