// The order in which payloads leave the queue.
//
// Two size classes (small, large) take turns by bytes. The next class is the one that was served
// fewer bytes while both had work. So many payloads of one class never hold up the other. Within a
// class the callers take turns: deficit round robin. Each turn is worth a quantum of bytes. A
// caller that took more misses turns until that is made up. Within a caller: first come, first
// served.
//
// A payload may leave in pieces (Take). Its rest stays first of its caller. A payload costs its
// bytes and kPayloadCost, so that empty ones are not free.
//
// Every operation is O(1), amortised over the bytes and payloads that leave. Memory is bounded by
// the most callers that had payloads queued at one time: jobs are linked through themselves. Not
// thread-safe: the batcher's lock guards it. Owns no job.
#ifndef HISTOGRAM_SERVER_BATCHING_FAIR_QUEUE_H_
#define HISTOGRAM_SERVER_BATCHING_FAIR_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "server/base/clock.h"
#include "server/batching/job.h"

namespace histogram::server {

class FairQueue {
 public:
  enum SizeClass : uint8_t { kSmall, kLarge };
  static constexpr int kClassCount = 2;
  // The cost of a payload beside its bytes: about the bytes of its counts.
  static constexpr int64_t kPayloadCost = 2048;

  // Of each class. Small enough that each of many callers is served soon. Large enough that a
  // caller does not miss a great many turns after one payload. Not measured apart.
  static constexpr std::array<int64_t, kClassCount> kQuanta = {8 << 10, 4 << 20};

  // Payloads of up to `small_bytes_max` bytes are in the small class.
  explicit FairQueue(uint64_t small_bytes_max) : small_bytes_max_(small_bytes_max) {}

  void Push(Job* job);

  bool empty() const { return payloads(kSmall) + payloads(kLarge) == 0; }
  // The payloads of a class, partly taken ones included, and their bytes that are left.
  uint32_t payloads(SizeClass size_class) const { return classes_[size_class].payloads; }
  uint64_t bytes(SizeClass size_class) const { return classes_[size_class].bytes; }
  // The class, of those with work, whose turn it is. REQUIRES: !empty().
  SizeClass Next() const;

  // The first payload of its class. It stays first until it is taken or dropped.
  // REQUIRES: payloads(size_class) > 0.
  Job* Front(SizeClass size_class);
  // The bytes that are left of a job.
  static uint64_t Left(const Job& job) { return job.bytes - job.notes_.dispatched; }

  // Takes `bytes` of Front(size_class). If nothing is left of it, it leaves the queue, and Take
  // returns true. REQUIRES: bytes <= Left(*Front(size_class)).
  bool Take(SizeClass size_class, uint64_t bytes);
  // Removes Front(size_class) at no cost to its caller.
  void Drop(SizeClass size_class);

 private:
  // The jobs of one caller. Pooled: callers come and go with each batch, under the batcher's lock.
  // With a node of a map for each, 4 KiB payloads over 8 ComputeMany connections to an H200 lose 12
  // %.
  struct Line {
    uint64_t id = 0;
    JobList jobs;
    int64_t deficit = 0;
    Line* next = nullptr;  // in the class's ring, or in the free list
  };
  struct Class {
    int64_t deficit = 0;  // bytes that it is owed, while both classes have work
    uint32_t payloads = 0;
    uint64_t bytes = 0;
    Line* tail = nullptr;  // of the ring of callers with work; it is the turn of tail->next
    absl::flat_hash_map<uint64_t, Line*> lines;  // those in the ring, by caller
  };

  Line* NewLine(uint64_t id, int64_t deficit);
  // Removes the first job of the caller whose turn it is. Removes the caller with its last job.
  void PopFront(Class& c);

  const uint64_t small_bytes_max_;
  std::array<Class, kClassCount> classes_;
  std::deque<Line> pool_;
  Line* unused_ = nullptr;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_BATCHING_FAIR_QUEUE_H_
