// Shares the queue's room among callers.
//
// All callers together may take `bytes_max`. A caller that holds room must leave at least half as
// much free as it holds. So one caller takes at most two thirds, and two take four fifths. A caller
// that holds nothing may take all that is free. So it finds room, however much the others send.
//
// Waiting jobs enter caller by caller, in turn. Those of one caller enter first come, first served.
// If a caller that holds nothing needs more than is free, all others wait behind it.
//
// Not thread-safe: the batcher's lock guards it. Owns no job.
#ifndef HISTOGRAM_SERVER_BATCHING_ADMISSION_H_
#define HISTOGRAM_SERVER_BATCHING_ADMISSION_H_

#include <cassert>
#include <cstdint>
#include <deque>

#include "absl/container/node_hash_map.h"
#include "server/batching/job.h"

namespace histogram::server {

class Admission {
 public:
  explicit Admission(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  uint64_t charged_bytes() const { return charged_bytes_; }
  uint64_t HeldBy(uint64_t caller) const {
    const auto found = callers_.find(caller);
    return found == callers_.end() ? 0 : found->second.held_bytes;
  }
  bool waits() const { return !turns_.empty(); }

  // Whether a job that comes now may be charged. REQUIRES: job.charge_bytes <= bytes_max.
  bool HasRoom(const Job& job) const {
    assert(job.charge_bytes <= bytes_max_);
    // With this job at most a third is charged. So it fits, whatever its caller holds.
    const uint64_t bytes = job.charge_bytes;
    if (turns_.empty() && bytes <= bytes_max_ / 3 && charged_bytes_ <= bytes_max_ / 3 - bytes) {
      return true;
    }
    if (newcomers_ > 0) return false;
    const auto found = callers_.find(job.caller);
    if (found == callers_.end()) return Fits(0, bytes);
    return found->second.waiting.empty() && Fits(found->second.held_bytes, bytes);
  }
  // Takes room for the job. Discharge gives it back.
  void Charge(Job* job) {
    Caller& caller = CallerOf(job->caller);
    charged_bytes_ += job->charge_bytes;
    job->notes_.charged = true;
    Update(caller, [&] { caller.held_bytes += job->charge_bytes; });
  }
  // Gives back the room that Charge took.
  void Discharge(Job* job) {
    const auto found = callers_.try_emplace(job->caller).first;
    Caller& caller = found->second;
    charged_bytes_ -= job->charge_bytes;
    Update(caller, [&] { caller.held_bytes -= job->charge_bytes; });
    if (IsIdle(caller)) callers_.erase(found);
  }

  // Queues the job for room. Next returns it.
  void Wait(Job* job) {
    Caller& caller = CallerOf(job->caller);
    if (caller.waiting.empty()) turns_.push_back(&caller);
    Update(caller, [&] { caller.waiting.PushBack(job); });
  }
  // Returns a waiting job: one to be charged now, or one to be dropped because `dead(job)` is true.
  // Null: all waiting jobs go on waiting.
  template <typename Dead>
  Job* Next(const Dead& dead);

 private:
  struct Caller {
    uint64_t id = 0;
    uint64_t held_bytes = 0;
    JobList waiting;
  };

  uint64_t free_bytes() const { return bytes_max_ - charged_bytes_; }
  bool Fits(uint64_t held_bytes, uint64_t bytes) const {
    if (bytes > free_bytes()) return false;
    return held_bytes == 0 || held_bytes + bytes <= 2 * (free_bytes() - bytes);
  }
  Caller& CallerOf(uint64_t id) {
    Caller& caller = callers_[id];
    caller.id = id;
    return caller;
  }
  static bool IsIdle(const Caller& caller) {
    return caller.held_bytes == 0 && caller.waiting.empty();
  }
  static bool IsNewcomer(const Caller& caller) {
    return caller.held_bytes == 0 && !caller.waiting.empty();
  }
  // Calls change() and keeps newcomers_ up to date.
  template <typename Change>
  void Update(Caller& caller, const Change& change) {
    const bool before = IsNewcomer(caller);
    change();
    const bool now = IsNewcomer(caller);
    if (before && !now) --newcomers_;
    if (!before && now) ++newcomers_;
  }

  const uint64_t bytes_max_;
  uint64_t charged_bytes_ = 0;
  uint64_t newcomers_ = 0;                         // callers that hold nothing and wait for room
  absl::node_hash_map<uint64_t, Caller> callers_;  // those that hold room or wait for it
  std::deque<Caller*> turns_;                      // callers with waiting jobs; the first is next
};

template <typename Dead>
Job* Admission::Next(const Dead& dead) {
  for (size_t passed = 0; passed < turns_.size(); ++passed) {
    Caller& caller = *turns_.front();
    Job* const job = caller.waiting.front();
    if (!dead(*job) && !Fits(caller.held_bytes, job->charge_bytes)) {
      if (caller.held_bytes == 0) return nullptr;  // no other caller overtakes it
      turns_.pop_front();
      turns_.push_back(&caller);
      continue;
    }
    turns_.pop_front();
    Update(caller, [&] { caller.waiting.PopFront(); });
    if (!caller.waiting.empty()) turns_.push_back(&caller);
    if (IsIdle(caller)) callers_.erase(caller.id);
    return job;
  }
  return nullptr;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_ADMISSION_H_
