#include "server/rpc/event_loop.h"

#include <grpc/support/time.h>
#include <pthread.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/thresholds.h"

namespace histogram::server {
namespace {

// Work for a dry loop waits for at most this many events. Not measured apart.
constexpr uint32_t kPassedMax = 64;

}  // namespace

void EventLoop::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), absl::StrCat("receive-", index_).c_str());
    Serve();
  });
}

void EventLoop::Post(Posted& work) {
  Posted* newest = posted_.load(std::memory_order_relaxed);
  do {
    work.next_ = newest;
  } while (!posted_.compare_exchange_weak(newest, &work));
  // Either this sees that the loop sleeps, or the loop sees the work before it sleeps.
  // Looking first leaves the cache line where it is.
  if (sleeping_.load() && sleeping_.exchange(false)) {
    bell_.Set(events_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), rang_.tag());
  }
}

bool EventLoop::Sleep(void** tag, bool* ok) {
  // While the bell is set its event is about to come.
  if (!bell_is_set_) {
    sleeping_.store(true);
    if (posted_.load() != nullptr) {
      bell_is_set_ = !sleeping_.exchange(false);
      *tag = nullptr;
      return true;
    }
  }
  const bool got = events_->Next(tag, ok);
  if (!bell_is_set_) bell_is_set_ = !sleeping_.exchange(false);
  return got;
}

void EventLoop::RunAll(Posted* newest) {
  Posted* oldest = nullptr;
  while (newest != nullptr) {
    Posted* const older = std::exchange(newest->next_, oldest);
    oldest = std::exchange(newest, older);
  }
  while (oldest != nullptr) std::exchange(oldest, oldest->next_)->Run();  // may be gone after it
}

bool EventLoop::HandOver(uint64_t bytes) {
  if (bytes < kHandOverBytesMin) return false;
  const bool idle_cores = counting_.Note(index_, Clock::Monotonic().Now());
  if (!sends_ahead_.Arrived(handed_over_) || !idle_cores) return false;
  ++handed_over_;
  return true;
}

TimeNs EventLoop::StoodStillNs() {
  const TimeNs now = Clock::Monotonic().Now();
  const TimeNs posted_at = turn_posted_at_.load();
  if (posted_at != 0) return now - posted_at;
  turn_posted_at_.store(now);
  Post(*this);
  return 0;
}

void EventLoop::Serve() {
  for (uint32_t passed = 0; true; ++passed) {
    if (posted_.load(std::memory_order_relaxed) != nullptr) {
      RunAll(posted_.exchange(nullptr));
      continue;
    }
    void* tag = nullptr;
    bool ok = false;
    if (when_dry_ == nullptr) {
      if (!Sleep(&tag, &ok)) return;
      passed = 0;
    } else {
      const auto next = events_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::TIMEOUT || passed >= kPassedMax) {
        RunAll(std::exchange(when_dry_, nullptr));
      }
    }
    if (tag != nullptr) static_cast<Event*>(tag)->OnComplete(ok);
  }
}

EventLoops::EventLoops(grpc::ServerBuilder& builder, uint32_t count, CallGuard& guard)
    : counting_(std::max(1U, count)) {
  for (uint32_t i = 0; i < std::max(1U, count); ++i) {
    loops_.push_back(
        std::make_unique<EventLoop>(builder.AddCompletionQueue(), i, counting_, guard));
  }
}

EventLoops::~EventLoops() { Stop(); }

void EventLoops::Start() {
  for (const auto& loop : loops_) loop->Start();
}

void EventLoops::Stop() {
  if (std::exchange(stopped_, true)) return;
  // A call that is cancelled as the server shuts down begins one more operation, its end, which a
  // queue that is shut down would not take.
  for (const auto& loop : loops_) {
    if (!loop->thread_.joinable()) continue;
    while (const uint64_t left = loop->calls_.load(std::memory_order_acquire)) {
      loop->calls_.wait(left);
    }
  }
  for (const auto& loop : loops_) loop->events_->Shutdown();
  for (const auto& loop : loops_) {
    if (loop->thread_.joinable()) loop->thread_.join();
    // Something is left only if no thread was ever started.
    void* tag = nullptr;
    bool ok = false;
    while (loop->events_->Next(&tag, &ok)) static_cast<Event*>(tag)->OnComplete(ok);
  }
}

TimeNs EventLoops::StoodStillNs() {
  TimeNs longest = 0;
  for (const auto& loop : loops_) longest = std::max(longest, loop->StoodStillNs());
  return longest;
}

}  // namespace histogram::server
