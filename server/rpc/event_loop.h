// The server's event loops. A loop owns one completion queue of gRPC and one thread.
//
// gRPC assigns each connection to a queue, and with it to a loop. The loop's thread receives the
// connection's messages, counts the small ones, and is the only one that reads, writes and finishes
// its calls. Another thread that works for a call posts the outcome to the loop. So a call needs no
// lock. From other threads gRPC may only cancel it (call_guard.h).
//
// A loop has connections of its own only where each queue polls its own sockets, as gRPC's strategy
// "poll" does (ChoosePolling). With other strategies it is correct, and slower.
#ifndef HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_
#define HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/rpc/call_guard.h"

namespace histogram::server {

// What a completion queue hands back: every tag that is given to gRPC is an Event.
class Event {
 public:
  // The operation is over; `ok` as the operation defines it. Called once for each operation, by
  // the thread that took the event from its queue, without any lock.
  virtual void OnComplete(bool ok) = 0;

 protected:
  ~Event() = default;
};

// An event that is a member of what it happens to, and calls one of its functions.
template <typename Owner, void (Owner::*kThen)(bool ok)>
class MemberEvent final : public Event {
 public:
  explicit MemberEvent(Owner& owner) : owner_(owner) {}
  void OnComplete(bool ok) override { (owner_.*kThen)(ok); }
  // The tag to give to gRPC: Event* as void*, whatever the layout of this class.
  void* tag() { return static_cast<Event*>(this); }

 private:
  Owner& owner_;
};

// Work for the thread of a loop. An object is in at most one list at a time.
class Posted {
 public:
  virtual ~Posted() = default;
  // Called once for each Post or WhenDry, without any lock. Until then the object stays.
  virtual void Run() = 0;

 private:
  friend class EventLoop;
  Posted* next_ = nullptr;  // in the list that it is in
};

// --- When a loop's thread leaves a message to another thread.

// Whether the clients of a loop send ahead of their answers.
//
// The thread answers a message that it counts itself before it looks at the next one, whatever the
// clients do. So now and then one message is handed over to see whether another comes meanwhile.
// Without it, a client that waits for each answer costs 18 % more CPU a call of 1 MiB (2-core x86
// VM, at 07ac9dd). Belongs to the loop's thread.
class SendsAhead {
 public:
  // An observation holds for this many messages. Not measured apart.
  static constexpr uint32_t kMemory = 64;
  // Of the messages that come alone the second is handed over, and then one in this many. Not
  // measured apart.
  static constexpr uint32_t kTryEvery = 16;

  // A message came while `others` were handed over and not yet back. Returns whether to hand it
  // over, too.
  bool Arrived(uint64_t others) {
    if (others > 0) {
      remembered_ = kMemory;
    } else if (remembered_ > 0) {
      --remembered_;
    }
    return remembered_ > 0 || alone_++ % kTryEvery == 1;
  }

 private:
  uint32_t remembered_ = 0;
  uint32_t alone_ = 0;
};

// Whether other cores are likely idle: at most half of the loops had much to count a moment ago.
// Without it, four connections of 1 MiB x 2 cost 7 % more CPU a call (2-core x86 VM, at 07ac9dd).
// Thread-safe. Times are nanoseconds of a clock that does not go back.
class CountingLoops {
 public:
  // Longer than counting a large payload takes. Not measured apart.
  static constexpr int64_t kRecentlyNs = 20'000'000;

  explicit CountingLoops(size_t loops) : loops_(loops) {}

  // Loop `i` has much to count. Returns whether other cores are likely idle.
  bool Note(size_t i, int64_t now) {
    loops_[i].counted_at.store(now, std::memory_order_relaxed);
    size_t counting = 0;
    for (const Loop& loop : loops_) {
      if (loop.counted_at.load(std::memory_order_relaxed) >= now - kRecentlyNs) ++counting;
    }
    return 2 * counting <= loops_.size();
  }

 private:
  // Each thread writes its loop's: cache lines of its own.
  struct alignas(128) Loop {
    std::atomic<int64_t> counted_at{INT64_MIN};
  };
  std::vector<Loop> loops_;
};

// On cache lines of its own: each thread writes its loop's.
class alignas(128) EventLoop final : private Posted {
 public:
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> events, size_t index,
            CountingLoops& counting, CallGuard& guard)
      : events_(std::move(events)), index_(index), counting_(counting), guarded_(guard) {}

  // Its number among the server's loops, from 0 on.
  size_t index() const { return index_; }
  // Where the operations of its calls complete. Every tag in it is an Event.
  grpc::ServerCompletionQueue& events() { return *events_; }
  // The loop's thread runs `work` soon, and never from within this. Thread-safe.
  // REQUIRES: a call of this loop is open, or the server is not shut down before `work` has run.
  void Post(Posted& work);
  // Runs `work` once no event waits in the loop any more, or many have passed. Work that is left
  // until then can be done together, such as sending replies. REQUIRES: called by the loop's
  // thread.
  void WhenDry(Posted& work) { work.next_ = std::exchange(when_dry_, &work); }
  // Whether a message of `bytes` is worth the way to another thread and back. True if counting it
  // takes longer than waking a thread, if other cores are likely idle, and if the loop's clients
  // send ahead of their answers: a client that waits for each answer would wait for two threads to
  // wake. One ComputeMany of 256 KiB x 8 makes 14 to 39 % more calls a second by it, for 11 % more
  // CPU a call (2-core x86 VM, at 07ac9dd).
  // REQUIRES: called by the loop's thread; HandedBack is called once for each true.
  bool HandOver(uint64_t bytes);
  void HandedBack() { --handed_over_; }
  // Where calls of this loop join once they have arrived.
  CallGuard::Loop& guarded() { return guarded_; }
  // A call is awaited in this loop (on any thread); gRPC is done with it (on the loop's thread).
  // The loop outlives its calls.
  void CallBegun() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void CallEnded() {
    if (calls_.fetch_sub(1, std::memory_order_acq_rel) == 1) calls_.notify_all();
  }

 private:
  friend class EventLoops;

  void Start();
  void Serve();
  // Waits for an event, or for posted work: then the tag is null. False: the queue is shut down and
  // empty.
  bool Sleep(void** tag, bool* ok);
  void Rang(bool) { bell_is_set_ = false; }
  // Runs a list of posted work in the order of posting.
  static void RunAll(Posted* newest);
  // The loop turns: what StoodStillNs has posted runs.
  void Run() override { turn_posted_at_.store(0); }
  TimeNs StoodStillNs();

  const std::unique_ptr<grpc::ServerCompletionQueue> events_;
  const size_t index_;
  CountingLoops& counting_;
  CallGuard::Loop guarded_;

  // Of the loop's thread.
  Posted* when_dry_ = nullptr;  // newest first
  bool bell_is_set_ = false;    // and its event has not come yet
  SendsAhead sends_ahead_;
  uint64_t handed_over_ = 0;  // and not yet back

  std::atomic<uint64_t> calls_{0};  // awaited or open; ended by the thread below, which is joined

  std::thread thread_;

  // Written by other threads, too.
  alignas(128) std::atomic<Posted*> posted_{nullptr};  // newest first
  // The loop is about to wait for an event, or does. The thread that makes it false sets the bell.
  std::atomic<bool> sleeping_{false};
  grpc::Alarm bell_;  // wakes the loop
  MemberEvent<EventLoop, &EventLoop::Rang> rang_{*this};
  std::atomic<TimeNs> turn_posted_at_{0};  // and it has not run yet; 0: it waits nowhere
};

// Posts a function, which is called once and then destroyed.
template <typename Function>
void PostFunction(EventLoop& loop, Function function) {
  struct Work final : Posted {
    explicit Work(Function f) : then(std::move(f)) {}
    void Run() override {
      then();
      delete this;
    }
    Function then;
  };
  loop.Post(*new Work(std::move(function)));
}

class EventLoops {
 public:
  // Adds `count` loops (at least one) to the server that `builder` will build. `guard` outlives
  // them.
  EventLoops(grpc::ServerBuilder& builder, uint32_t count, CallGuard& guard);
  ~EventLoops();  // stops
  EventLoops(const EventLoops&) = delete;
  EventLoops& operator=(const EventLoops&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(loops_.size()); }
  EventLoop& operator[](uint32_t i) { return *loops_[i]; }

  // Starts the threads.
  void Start();
  // For how long the slowest loop has not turned: its thread is busy with one event, or hangs. Each
  // call asks the loops to turn. A loop's time counts from the first request that it has not
  // followed. One thread calls this, every now and then.
  // REQUIRES: as of EventLoop::Post.
  TimeNs StoodStillNs();
  // Waits until all calls have ended, and ends the threads. REQUIRES: the server has been shut
  // down, so that no call is awaited any more, or was never built.
  void Stop();

 private:
  CountingLoops counting_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
  bool stopped_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_
