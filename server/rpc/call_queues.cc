#include "server/rpc/call_queues.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/event.h"

namespace histogram::server {
namespace {

constexpr uint64_t kMuchBytesMin = 64 << 10;   // to count them takes longer than to wake a thread
constexpr uint64_t kLendBytesMin = 128 << 10;  // and longer than until it is awake
constexpr int64_t kRecentlyNs = 20'000'000;    // longer than the largest payloads take
constexpr int64_t kNotYet = INT64_MIN;

int64_t NowNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count();
}

}  // namespace

// Cache lines of its own: each thread writes its queue's.
struct alignas(128) CallQueues::Queue final : CallQueue {
  grpc::ServerCompletionQueue& events() override { return *cq; }
  void Post(Posted& work) override;
  void RunPosted(bool);
  void CallBegun() override {
    absl::MutexLock lock(&mu);
    ++calls;
  }
  void CallEnded() override {
    absl::MutexLock lock(&mu);
    if (--calls == 0) changed.SignalAll();
  }
  bool IsServed() {
    absl::MutexLock lock(&mu);
    return served;
  }
  // A call that is cancelled as the server shuts down begins one more operation, its end, which a
  // queue that is shut down would not take.
  void WaitUntilNoCallIsLeft() {
    absl::MutexLock lock(&mu);
    while (calls > 0) changed.Wait(&mu);
  }

  std::unique_ptr<grpc::ServerCompletionQueue> cq;
  std::atomic<int64_t> counted_at{kNotYet};  // when an event of this queue last had much to count

  absl::Mutex mu;
  absl::CondVar changed;
  uint64_t calls ABSL_GUARDED_BY(mu) = 0;   // awaited or open
  bool served ABSL_GUARDED_BY(mu) = false;  // a thread is at it
  bool over ABSL_GUARDED_BY(mu) = false;

  std::vector<std::thread> threads;

  // Written by those who count elsewhere.
  alignas(128) std::atomic<Posted*> posted{nullptr};  // newest first
  // Rings when there was nothing posted and now is: whoever posted that sets it.
  grpc::Alarm bell;
  MemberEvent<Queue, &Queue::RunPosted> rang{*this};
};

// What a thread is at.
struct CallQueues::Serving {
  CallQueues* queues = nullptr;
  Queue* queue = nullptr;  // null: not in an event
  bool lent = false;

  static Serving& Own() {
    static thread_local Serving own;
    return own;
  }
};

void CallQueues::Queue::Post(Posted& work) {
  const Serving& own = Serving::Own();
  if (own.queue == this && !(own.lent && IsServed())) return work.Run();
  Posted* newest = posted.load(std::memory_order_relaxed);
  do {
    work.next_ = newest;
  } while (!posted.compare_exchange_weak(newest, &work, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  // Its last event has been taken from the queue, since it was that which emptied the list.
  if (newest == nullptr) bell.Set(cq.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), rang.tag());
}

void CallQueues::Queue::RunPosted(bool) {
  Posted* work = posted.exchange(nullptr, std::memory_order_acq_rel);
  Posted* oldest = nullptr;
  while (work != nullptr) {
    Posted* const older = std::exchange(work->next_, oldest);
    oldest = std::exchange(work, older);
  }
  while (oldest != nullptr) std::exchange(oldest, oldest->next_)->Run();  // may be gone after it
}

CallQueues::CallQueues(grpc::ServerBuilder& builder, uint32_t count) {
  for (uint32_t i = 0; i < std::max(1U, count); ++i) {
    queues_.push_back(std::make_unique<Queue>());
    queues_.back()->cq = builder.AddCompletionQueue();
  }
}

CallQueues::~CallQueues() { Stop(); }

void CallQueues::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& queue : queues_) {
    if (!queue->threads.empty()) queue->WaitUntilNoCallIsLeft();
  }
  for (const auto& queue : queues_) queue->cq->Shutdown();
  for (const auto& queue : queues_) {
    for (std::thread& thread : queue->threads) thread.join();
    // Only where no thread was ever started is anything left.
    void* tag = nullptr;
    bool ok = false;
    while (queue->cq->Next(&tag, &ok)) static_cast<Event*>(tag)->Happened(ok);
  }
}

CallQueue& CallQueues::operator[](uint32_t i) { return *queues_[i]; }

void CallQueues::Start() {
  constexpr int kThreads = 2;  // one that serves the queue, and one to lend it to
  for (size_t i = 0; i < queues_.size(); ++i) {
    for (int t = 0; t < kThreads; ++t) {
      queues_[i]->threads.emplace_back([this, i] {
        pthread_setname_np(pthread_self(), absl::StrCat("receive-", i).c_str());
        Serve(*queues_[i]);
      });
    }
  }
}

void CallQueues::Serve(Queue& queue) {
  Serving& own = Serving::Own();
  own.queues = this;
  while (true) {
    {
      absl::MutexLock lock(&queue.mu);
      while (queue.served && !queue.over) queue.changed.Wait(&queue.mu);
      if (queue.over) return;
      queue.served = true;
    }
    own.lent = false;
    while (!own.lent) {
      void* tag = nullptr;
      bool ok = false;
      if (!queue.cq->Next(&tag, &ok)) {
        absl::MutexLock lock(&queue.mu);
        queue.over = true;
        queue.changed.SignalAll();
        return;
      }
      own.queue = &queue;
      static_cast<Event*>(tag)->Happened(ok);
      own.queue = nullptr;
    }
  }
}

uint32_t CallQueues::CountingSince(int64_t since) const {
  uint32_t queues = 0;
  for (const auto& queue : queues_) {
    if (queue->counted_at.load(std::memory_order_relaxed) >= since) ++queues;
  }
  return queues;
}

bool CallQueues::CoresToSpare(uint64_t bytes) {
  return bytes >= kMuchBytesMin && CoresToSpare(bytes, NowNs());
}

bool CallQueues::CoresToSpare(uint64_t bytes, int64_t now) {
  const Serving& own = Serving::Own();
  if (bytes < kMuchBytesMin || own.queue == nullptr) return false;
  own.queue->counted_at.store(now, std::memory_order_relaxed);
  return 2 * own.queues->CountingSince(now - kRecentlyNs) <= own.queues->size();
}

bool CallQueues::LendToCount(uint64_t bytes) {
  return bytes >= kMuchBytesMin && LendToCount(bytes, NowNs());
}

bool CallQueues::LendToCount(uint64_t bytes, int64_t now) {
  Serving& own = Serving::Own();
  if (own.lent || !CoresToSpare(bytes, now) || bytes < kLendBytesMin) return false;
  own.lent = true;
  absl::MutexLock lock(&own.queue->mu);
  own.queue->served = false;
  own.queue->changed.Signal();
  return true;
}

}  // namespace histogram::server
