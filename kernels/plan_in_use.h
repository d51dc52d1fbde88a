// A plan for samples that may come once or a thousand times.
#ifndef HISTOGRAM_KERNELS_PLAN_IN_USE_H_
#define HISTOGRAM_KERNELS_PLAN_IN_USE_H_

#include <histogram/plan.h>
#include <histogram/sample_type.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace histogram {

// Has no tables until samples repay them: most binnings that differ from all others come once. A
// plan of bytes needs none. Thread-safe.
class PlanInUse {
 public:
  // `first`: without tables, or of bytes.
  explicit PlanInUse(const Plan& first) : first_(first) {
    if (first_.counts_values()) KeepFirst();
  }

  SampleType type() const { return first_.type(); }
  uint32_t bin_count() const { return first_.bin_count(); }
  // The plan stays without tables. REQUIRES: neither Pays nor Get has been called.
  void KeepFirst() { made_ = &first_; }
  // The plan that stays: with tables, after KeepFirst without. Null until Get has made it.
  const Plan* made() const { return made_.load(std::memory_order_acquire); }
  // The plan as it is.
  const Plan& Now() const {
    const Plan* const plan = made();
    return plan != nullptr ? *plan : first_;
  }
  // Notes that `samples` samples are to be counted. Returns whether there are no tables yet, and
  // all those noted repay them.
  bool Pays(uint64_t samples) {
    if (made() != nullptr) return false;
    const uint64_t before = noted_.fetch_add(samples, std::memory_order_relaxed);
    return first_.TablesPay(before + samples);
  }
  // Whether `samples` samples alone repay tables, and these are of no more than `bins_max` bins.
  bool IsQuick(uint64_t samples, uint32_t bins_max) const {
    return bin_count() <= bins_max && first_.TablesPay(samples);
  }
  // Makes the tables if there are none yet. Waits if another thread is making them.
  const Plan& Get() {
    std::call_once(once_, [this] {
      if (made() != nullptr) return;
      plan_ = *Plan::Make(first_.binning(), type());  // fails only without edges
      made_.store(&plan_, std::memory_order_release);
    });
    return *made();
  }
  // An upper bound of the memory of the tables that Get makes.
  uint64_t bytes() const {
    if (first_.counts_values()) return 0;
    constexpr uint64_t kCells = 65538, kPatterns = 65536;  // of 4 bytes, at most
    const uint64_t sample_bytes = SampleBytes(type());
    const uint64_t threshold = std::max<uint64_t>(sample_bytes, sizeof(uint32_t));
    return bin_count() * threshold +
           (kCells + (sample_bytes <= 2 ? kPatterns : 0)) * sizeof(uint32_t);
  }

 private:
  const Plan first_;  // of bytes, or without tables
  std::atomic<uint64_t> noted_{0};
  std::once_flag once_;
  Plan plan_;  // written under once_
  std::atomic<const Plan*> made_{nullptr};
};

}  // namespace histogram

#endif  // HISTOGRAM_KERNELS_PLAN_IN_USE_H_
