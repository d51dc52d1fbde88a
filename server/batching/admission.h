// Shares the queue's room among callers.
//
// All callers together may take `bytes_max`. A caller that holds room must leave at least half as
// much free as it holds. So several jobs of one caller take at most two thirds, and those of two
// take four fifths. A caller that holds nothing may take all that is free, with one job. So it
// finds room, however much the others send.
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
    const auto found = shares_.find(caller);
    return found == shares_.end() ? 0 : found->second.held_bytes;
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
    const auto found = shares_.find(job.caller);
    if (found == shares_.end()) return Fits(0, bytes);
    return found->second.waiting.empty() && Fits(found->second.held_bytes, bytes);
  }
  // Takes room for the job. Discharge gives it back.
  void Charge(Job* job) {
    Share& share = ShareOf(job->caller);
    charged_bytes_ += job->charge_bytes;
    job->notes_.charged = true;
    Update(share, [&] { share.held_bytes += job->charge_bytes; });
  }
  // Gives back the room that Charge took.
  void Discharge(Job* job) {
    const auto found = shares_.try_emplace(job->caller).first;
    Share& share = found->second;
    charged_bytes_ -= job->charge_bytes;
    Update(share, [&] { share.held_bytes -= job->charge_bytes; });
    if (IsIdle(share)) shares_.erase(found);
  }

  // Queues the job for room. Next returns it.
  void Wait(Job* job) {
    Share& share = ShareOf(job->caller);
    if (share.waiting.empty()) turns_.push_back(&share);
    Update(share, [&] { share.waiting.PushBack(job); });
  }
  // Returns a waiting job: one to be charged now, or one to be dropped because `dead(job)` is true.
  // Null: all waiting jobs go on waiting.
  template <typename Dead>
  Job* Next(const Dead& dead);

 private:
  // What one caller holds and waits for.
  struct Share {
    uint64_t id = 0;
    uint64_t held_bytes = 0;
    JobList waiting;
  };

  uint64_t free_bytes() const { return bytes_max_ - charged_bytes_; }
  bool Fits(uint64_t held_bytes, uint64_t bytes) const {
    if (bytes > free_bytes()) return false;
    return held_bytes == 0 || held_bytes + bytes <= 2 * (free_bytes() - bytes);
  }
  Share& ShareOf(uint64_t id) {
    Share& share = shares_[id];
    share.id = id;
    return share;
  }
  static bool IsIdle(const Share& share) { return share.held_bytes == 0 && share.waiting.empty(); }
  static bool IsNewcomer(const Share& share) {
    return share.held_bytes == 0 && !share.waiting.empty();
  }
  // Calls change() and keeps newcomers_ up to date.
  template <typename Change>
  void Update(Share& share, const Change& change) {
    const bool before = IsNewcomer(share);
    change();
    const bool now = IsNewcomer(share);
    if (before && !now) --newcomers_;
    if (!before && now) ++newcomers_;
  }

  const uint64_t bytes_max_;
  uint64_t charged_bytes_ = 0;
  uint64_t newcomers_ = 0;                       // callers that hold nothing and wait for room
  absl::node_hash_map<uint64_t, Share> shares_;  // those that hold room or wait for it
  std::deque<Share*> turns_;                     // callers with waiting jobs; the first is next
};

template <typename Dead>
Job* Admission::Next(const Dead& dead) {
  for (size_t passed = 0; passed < turns_.size(); ++passed) {
    Share& share = *turns_.front();
    Job* const job = share.waiting.front();
    if (!dead(*job) && !Fits(share.held_bytes, job->charge_bytes)) {
      if (share.held_bytes == 0) return nullptr;  // no other caller overtakes it
      turns_.pop_front();
      turns_.push_back(&share);
      continue;
    }
    turns_.pop_front();
    Update(share, [&] { share.waiting.PopFront(); });
    if (!share.waiting.empty()) turns_.push_back(&share);
    if (IsIdle(share)) shares_.erase(share.id);
    return job;
  }
  return nullptr;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_ADMISSION_H_
