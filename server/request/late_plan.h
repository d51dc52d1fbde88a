// A plan that its first user makes. Making one takes about 10 ns a bin, so a lane makes a large
// one.
#ifndef HISTOGRAM_SERVER_REQUEST_LATE_PLAN_H_
#define HISTOGRAM_SERVER_REQUEST_LATE_PLAN_H_

#include <histogram/binning.h>
#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace histogram::server {

// Thread-safe.
class LatePlan {
 public:
  // REQUIRES: binning.has_edges().
  LatePlan(const Binning& binning, SampleType type) : binning_(binning), type_(type) {}

  // Null until Get has made it.
  const Plan* made() const { return made_.load(std::memory_order_acquire); }
  // Makes the plan if there is none yet. Waits if another thread is making it.
  const Plan& Get();
  // An upper bound of the plan's memory.
  uint64_t bytes() const;

 private:
  const Binning binning_;
  const SampleType type_;
  std::once_flag once_;
  std::optional<Plan> plan_;  // written under once_
  std::atomic<const Plan*> made_{nullptr};
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_REQUEST_LATE_PLAN_H_
