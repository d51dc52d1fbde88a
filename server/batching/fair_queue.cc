#include "server/batching/fair_queue.h"

#include <algorithm>
#include <cassert>

namespace histogram::server {

FairQueue::Line* FairQueue::NewLine(uint64_t id, int64_t deficit) {
  Line* line = unused_;
  if (line != nullptr) {
    unused_ = line->next;
  } else {
    line = &pool_.emplace_back();
  }
  line->id = id;
  line->deficit = deficit;
  return line;
}

void FairQueue::Push(Job* job) {
  const SizeClass size_class = job->bytes <= small_bytes_max_ ? kSmall : kLarge;
  Class& c = classes_[size_class];
  Line*& line = c.lines[job->caller];
  if (line == nullptr) {
    line = NewLine(job->caller, kQuanta[size_class]);
    if (c.tail == nullptr) {
      line->next = line;
    } else {
      line->next = c.tail->next;
      c.tail->next = line;
    }
    c.tail = line;
  }
  line->jobs.PushBack(job);
  ++c.payloads;
  c.bytes += Left(*job);
}

FairQueue::SizeClass FairQueue::Next() const {
  const Class& small = classes_[kSmall];
  const Class& large = classes_[kLarge];
  assert(!empty());
  if (small.payloads == 0) return kLarge;
  if (large.payloads == 0) return kSmall;
  return small.deficit >= large.deficit ? kSmall : kLarge;
}

Job* FairQueue::Front(SizeClass size_class) {
  Class& c = classes_[size_class];
  assert(c.payloads > 0);
  // A caller that is overdrawn misses its turn and is credited for it.
  while (c.tail->next->deficit <= 0) {
    c.tail = c.tail->next;
    c.tail->deficit += kQuanta[size_class];
  }
  return c.tail->next->jobs.front();
}

bool FairQueue::Take(SizeClass size_class, uint64_t bytes) {
  Class& c = classes_[size_class];
  Line& line = *c.tail->next;
  Job* job = line.jobs.front();
  assert(bytes <= Left(*job));
  const bool first = job->notes_.dispatched == 0;
  const int64_t cost = static_cast<int64_t>(bytes) + (first ? kPayloadCost : 0);
  line.deficit -= cost;
  job->notes_.dispatched += bytes;
  c.bytes -= bytes;
  const Class& other = classes_[1 - size_class];
  c.deficit -= other.payloads > 0 ? cost : 0;
  if (Left(*job) > 0) return false;
  PopFront(c);
  return true;
}

void FairQueue::Drop(SizeClass size_class) {
  Class& c = classes_[size_class];
  c.bytes -= Left(*c.tail->next->jobs.front());
  PopFront(c);
}

void FairQueue::PopFront(Class& c) {
  Line* line = c.tail->next;
  line->jobs.PopFront();
  --c.payloads;
  if (line->jobs.empty()) {
    if (line == c.tail) {
      c.tail = nullptr;
    } else {
      c.tail->next = line->next;
    }
    c.lines.erase(line->id);
    line->next = unused_;
    unused_ = line;
  }
  // A debt counts only while both have work: nobody saves up turns.
  if (c.payloads == 0) {
    for (Class& each : classes_) each.deficit = 0;
  }
}

}  // namespace histogram::server
