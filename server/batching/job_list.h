// A first-in-first-out list of jobs, linked through the jobs, so that it never allocates. A job is
// in at most one list. Not thread-safe: the batcher's lock guards it.
#ifndef HISTOGRAM_SERVER_BATCHING_JOB_LIST_H_
#define HISTOGRAM_SERVER_BATCHING_JOB_LIST_H_

#include <cassert>

#include "server/batching/job.h"

namespace histogram::server {

class JobList {
 public:
  bool empty() const { return first_ == nullptr; }
  Job* front() const { return first_; }

  void PushBack(Job* job) {
    job->notes_.next = nullptr;
    if (last_ == nullptr) {
      first_ = job;
    } else {
      last_->notes_.next = job;
    }
    last_ = job;
  }

  // REQUIRES: !empty().
  Job* PopFront() {
    assert(!empty());
    Job* job = first_;
    first_ = job->notes_.next;
    if (first_ == nullptr) last_ = nullptr;
    job->notes_.next = nullptr;
    return job;
  }

  // Calls visit(const Job&) for each job, first to last.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Job* job = first_; job != nullptr; job = job->notes_.next) visit(*job);
  }

 private:
  Job* first_ = nullptr;
  Job* last_ = nullptr;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_JOB_LIST_H_
