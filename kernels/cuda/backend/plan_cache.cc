#include "kernels/cuda/backend/plan_cache.h"

#include <iterator>
#include <variant>

#include "kernels/plan_data.h"

namespace histogram::cuda {
namespace {

// With the Plan that it keeps alive.
uint64_t BytesOf(const TypedPlan& plan) {
  const internal::PlanData& data = plan.plan().data();
  const uint64_t of_bins = std::visit(
      [](const auto& bins) {
        return bins.thresholds.capacity() * sizeof(bins.thresholds[0]) +
               bins.cells.first.capacity() * sizeof(bins.cells.first[0]);
      },
      data.bins);
  return sizeof(TypedPlan) + sizeof(internal::PlanData) + plan.tables().size() + of_bins +
         data.slot_of_pattern.capacity() * sizeof(data.slot_of_pattern[0]) +
         (uint64_t{data.binning.bin_count()} + 1) * sizeof(double);  // of its edges, at most
}

}  // namespace

std::shared_ptr<const TypedPlan> PlanCache::Get(const Plan& plan) {
  // One without tables is for samples that come once, and what is made of it holds another plan.
  if (!plan.has_tables()) return std::make_shared<const TypedPlan>(plan);
  {
    MutexLock lock(mutex_);
    if (const auto found = index_.find(&plan.data()); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->plan;
    }
  }
  // Without the lock: it may take milliseconds.
  const auto made = std::make_shared<const TypedPlan>(plan);
  const uint64_t bytes = BytesOf(*made);
  if (bytes > kBytesMax) return made;
  Entries dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  if (const auto found = index_.find(&plan.data()); found != index_.end()) {
    return found->second->plan;  // another lane was quicker
  }
  while (bytes_ > kBytesMax - bytes) {
    bytes_ -= entries_.back().bytes;
    index_.erase(&entries_.back().plan->plan().data());
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }
  entries_.push_front({.plan = made, .bytes = bytes});
  index_[&plan.data()] = entries_.begin();
  bytes_ += bytes;
  return made;
}

}  // namespace histogram::cuda
