#include "server/rpc/event_loop.h"

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
#include "server/base/thresholds.h"
#include "server/rpc/event.h"
#include "server/rpc/hand_over.h"

namespace histogram::server {
namespace {

// What waits for a dry loop waits for at most this many events.
constexpr uint32_t kPassedMax = 64;

int64_t NowNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count();
}

// Runs when its loop turns.
class Turn final : public Posted {
 public:
  void Run() override { posted_at_.store(0); }
  // When it was posted, and has not run yet; 0: it waits nowhere.
  int64_t posted_at() const { return posted_at_.load(); }
  void PostTo(EventLoop& loop, int64_t now) {
    posted_at_.store(now);
    loop.Post(*this);
  }

 private:
  std::atomic<int64_t> posted_at_{0};
};

}  // namespace

// Cache lines of its own: each thread writes its loop's.
struct alignas(128) EventLoops::Loop final : EventLoop {
  Loop(size_t its_index, CountingLoops& all, ReceiveGuard& guard)
      : index(its_index), counting(all), received(guard) {}

  grpc::ServerCompletionQueue& events() override { return *cq; }
  void Post(Posted& work) override;
  void PostForNextEvent(Posted& work) override;
  void AwaitPosted(bool begins) override { begins ? ++awaiting : --awaiting; }
  void WhenDry(Posted& work) override { work.next_ = std::exchange(when_dry, &work); }
  bool HandOver(uint64_t bytes) override;
  void HandedBack() override { --handed_over; }
  ReceiveGuard::Loop& receives() override { return received; }
  void CallBegun() override { calls.fetch_add(1, std::memory_order_relaxed); }
  void CallEnded() override {
    if (calls.fetch_sub(1, std::memory_order_acq_rel) == 1) calls.notify_all();
  }
  // A call that is cancelled as the server shuts down begins one more operation, its end, which a
  // queue that is shut down would not take.
  void WaitUntilNoCallIsLeft() {
    while (const uint64_t left = calls.load(std::memory_order_acquire)) calls.wait(left);
  }
  // Whether it was another thread.
  bool Push(Posted& work);
  // Runs a list of posted work in the order of posting.
  static void RunAll(Posted* newest);
  void Rang(bool) { bell_is_set = false; }
  // Waits for an event, or for posted work: then the tag is null. False: the queue is shut down and
  // empty.
  bool Sleep(void** tag, bool* ok);

  const size_t index;
  CountingLoops& counting;
  ReceiveGuard::Loop received;
  std::unique_ptr<grpc::ServerCompletionQueue> cq;

  // Of the loop's thread.
  Posted* own_posted = nullptr;  // by itself, newest first
  Posted* when_dry = nullptr;    // likewise
  bool bell_is_set = false;      // and its event has not come yet
  SendsAhead sends_ahead;
  uint64_t handed_over = 0;  // and not yet back

  std::atomic<uint64_t> calls{0};  // awaited or open; ended by the thread below, which is joined

  absl::Mutex mu;  // held while `thread` is being set
  std::thread thread;

  // Written by other threads.
  alignas(128) std::atomic<Posted*> posted{nullptr};  // newest first
  std::atomic<uint32_t> awaiting{0};                  // calls that do; written by the loop
  // The loop is about to wait for an event, or does. Whoever makes it false sets the bell.
  std::atomic<bool> sleeping{false};
  grpc::Alarm bell;  // wakes the loop
  MemberEvent<Loop, &Loop::Rang> rang{*this};
  Turn turn;
};

bool EventLoops::Loop::Push(Posted& work) {
  if (std::this_thread::get_id() == thread.get_id()) {
    work.next_ = std::exchange(own_posted, &work);
    return false;
  }
  Posted* newest = posted.load(std::memory_order_relaxed);
  do {
    work.next_ = newest;
  } while (!posted.compare_exchange_weak(newest, &work));
  return true;
}

void EventLoops::Loop::Post(Posted& work) {
  // Either this sees that the loop sleeps, or the loop sees the work before it sleeps.
  if (Push(work) && sleeping.exchange(false)) {
    bell.Set(cq.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), rang.tag());
  }
}

void EventLoops::Loop::PostForNextEvent(Posted& work) {
  // As in Post, with one more that can be seen.
  if (Push(work) && awaiting.load() > 0 && sleeping.exchange(false)) {
    bell.Set(cq.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), rang.tag());
  }
}

bool EventLoops::Loop::Sleep(void** tag, bool* ok) {
  // While the bell is set its event is about to come.
  if (!bell_is_set) {
    sleeping.store(true);
    if (posted.load() != nullptr) {
      bell_is_set = !sleeping.exchange(false);
      *tag = nullptr;
      return true;
    }
  }
  const bool got = cq->Next(tag, ok);
  if (!bell_is_set) bell_is_set = !sleeping.exchange(false);
  return got;
}

void EventLoops::Loop::RunAll(Posted* newest) {
  Posted* oldest = nullptr;
  while (newest != nullptr) {
    Posted* const older = std::exchange(newest->next_, oldest);
    oldest = std::exchange(newest, older);
  }
  while (oldest != nullptr) std::exchange(oldest, oldest->next_)->Run();  // may be gone after it
}

bool EventLoops::Loop::HandOver(uint64_t bytes) {
  if (bytes < kHandOverBytesMin) return false;
  const bool idle_cores = counting.Note(index, NowNs());
  if (!sends_ahead.Arrived(handed_over) || !idle_cores) return false;
  ++handed_over;
  return true;
}

EventLoops::EventLoops(grpc::ServerBuilder& builder, uint32_t count, ReceiveGuard& guard)
    : counting_(std::make_unique<CountingLoops>(std::max(1U, count))) {
  for (uint32_t i = 0; i < std::max(1U, count); ++i) {
    loops_.push_back(std::make_unique<Loop>(i, *counting_, guard));
    loops_.back()->cq = builder.AddCompletionQueue();
  }
}

EventLoops::~EventLoops() { Stop(); }

void EventLoops::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& loop : loops_) {
    if (loop->thread.joinable()) loop->WaitUntilNoCallIsLeft();
  }
  for (const auto& loop : loops_) loop->cq->Shutdown();
  for (const auto& loop : loops_) {
    if (loop->thread.joinable()) loop->thread.join();
    // Only where no thread was ever started is anything left.
    void* tag = nullptr;
    bool ok = false;
    while (loop->cq->Next(&tag, &ok)) static_cast<Event*>(tag)->OnComplete(ok);
  }
}

EventLoop& EventLoops::operator[](uint32_t i) { return *loops_[i]; }

void EventLoops::Start() {
  for (size_t i = 0; i < loops_.size(); ++i) {
    absl::MutexLock lock(&loops_[i]->mu);  // the thread reads `thread` after it
    loops_[i]->thread = std::thread([this, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("receive-", i).c_str());
      Serve(*loops_[i]);
    });
  }
}

int64_t EventLoops::StoodStillNs() {
  const int64_t now = NowNs();
  int64_t longest = 0;
  for (const auto& loop : loops_) {
    const int64_t posted_at = loop->turn.posted_at();
    if (posted_at == 0) {
      loop->turn.PostTo(*loop, now);
    } else {
      longest = std::max(longest, now - posted_at);
    }
  }
  return longest;
}

void EventLoops::Serve(Loop& loop) {
  { absl::MutexLock lock(&loop.mu); }
  for (uint32_t passed = 0; true; ++passed) {
    while (loop.own_posted != nullptr) Loop::RunAll(std::exchange(loop.own_posted, nullptr));
    if (loop.posted.load(std::memory_order_relaxed) != nullptr) {
      Loop::RunAll(loop.posted.exchange(nullptr));
      continue;
    }
    void* tag = nullptr;
    bool ok = false;
    if (loop.when_dry == nullptr) {
      if (!loop.Sleep(&tag, &ok)) return;
      passed = 0;
    } else {
      const auto next = loop.cq->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::TIMEOUT || passed >= kPassedMax) {
        Loop::RunAll(std::exchange(loop.when_dry, nullptr));
      }
    }
    if (tag != nullptr) static_cast<Event*>(tag)->OnComplete(ok);
  }
}

}  // namespace histogram::server
