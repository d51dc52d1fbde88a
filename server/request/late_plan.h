// A plan that is made once, where it is needed first: a large one on a lane, since making it takes
// about 10 ns a bin.
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

  // Null until it is made.
  const Plan* made() const { return made_.load(std::memory_order_acquire); }
  // Makes it unless it is made; waits for a thread that is making it.
  const Plan& Get();
  // An upper bound of the memory that it takes.
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
