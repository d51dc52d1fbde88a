// Who gets room in the queue.
//
// All callers together may take `bytes_max`. A caller that holds room leaves at least half as much
// free as it holds itself. So one caller takes at most two thirds, two take four fifths, and a
// caller that holds nothing finds room, however much the others send. It may take all that is free.
//
// Jobs that wait are let in caller by caller, in turn; those of one caller first come, first
// served. Where a caller that holds nothing needs more than is free, all others wait behind it.
//
// Not thread-safe: guarded by the batcher's lock. Owns no job.
#ifndef HISTOGRAM_SERVER_BATCHING_ADMISSION_H_
#define HISTOGRAM_SERVER_BATCHING_ADMISSION_H_

#include <cstdint>
#include <deque>

#include "absl/container/node_hash_map.h"
#include "server/batching/job.h"
#include "server/batching/job_list.h"

namespace histogram::server {

class Admission {
 public:
  explicit Admission(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  uint64_t bytes_max() const { return bytes_max_; }
  uint64_t charged_bytes() const { return charged_bytes_; }
  uint64_t HeldBy(uint64_t caller) const;
  bool waits() const { return !turns_.empty(); }

  // Whether a job that comes now may be charged. REQUIRES: it alone is not above bytes_max.
  bool HasRoom(const Job& job) const;
  // Takes room for the job until Discharge.
  void Charge(Job* job);
  // The same for a job that is done before its thread does anything else: it is charged to no
  // caller.
  void ChargeBriefly(const Job& job) { charged_bytes_ += job.charge_bytes; }
  // Gives the room back that either of them took.
  void Discharge(Job* job);

  // The job waits for room until Next returns it.
  void Wait(Job* job);
  // The job that waits and is to be charged now, or to be dropped because `dead(job)` is true; null
  // where all that wait go on waiting.
  template <typename Dead>
  Job* Next(const Dead& dead);

 private:
  struct Caller {
    uint64_t id = 0;
    uint64_t held_bytes = 0;
    uint64_t jobs = 0;  // that are charged to it
    JobList waiting;
  };

  uint64_t free_bytes() const { return bytes_max_ - charged_bytes_; }
  bool Fits(uint64_t held_bytes, uint64_t bytes) const;
  Caller& CallerOf(uint64_t id);
  void ForgetIfIdle(Caller& caller);
  // Whether a caller that holds nothing waits, since what it needs is not free.
  bool NewcomerWaits() const { return newcomers_ > 0; }
  static bool IsNewcomer(const Caller& caller) {
    return caller.jobs == 0 && !caller.waiting.empty();
  }
  // Calls change() and keeps newcomers_ true.
  template <typename Change>
  void Update(Caller& caller, const Change& change);

  const uint64_t bytes_max_;
  uint64_t charged_bytes_ = 0;
  uint64_t newcomers_ = 0;
  absl::node_hash_map<uint64_t, Caller> callers_;  // those with jobs, charged or waiting
  std::deque<Caller*> turns_;                      // callers with jobs that wait; the first is next
};

template <typename Change>
void Admission::Update(Caller& caller, const Change& change) {
  const bool before = IsNewcomer(caller);
  change();
  const bool now = IsNewcomer(caller);
  if (before && !now) --newcomers_;
  if (!before && now) ++newcomers_;
}

template <typename Dead>
Job* Admission::Next(const Dead& dead) {
  for (size_t passed = 0; passed < turns_.size(); ++passed) {
    Caller& caller = *turns_.front();
    Job* const job = caller.waiting.front();
    if (!dead(*job) && !Fits(caller.held_bytes, job->charge_bytes)) {
      if (caller.jobs == 0) return nullptr;  // nobody overtakes it
      turns_.pop_front();
      turns_.push_back(&caller);
      continue;
    }
    turns_.pop_front();
    Update(caller, [&] { caller.waiting.PopFront(); });
    if (!caller.waiting.empty()) turns_.push_back(&caller);
    ForgetIfIdle(caller);
    return job;
  }
  return nullptr;
}

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_ADMISSION_H_
