// The server's event loops. A loop owns one completion queue of gRPC and one thread.
//
// gRPC assigns each connection to a queue, and with it to a loop. The loop's thread receives the
// connection's messages, counts the small ones, and is the only one that talks to gRPC about its
// calls. Whoever works for a call on another thread posts the outcome to the loop. So what belongs
// to one call needs no lock.
//
// A loop has connections of its own only where each queue polls its own sockets, as gRPC's strategy
// "poll" does (ChoosePolling). With other strategies it is correct, and slower.
#ifndef HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_
#define HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/rpc/receive_guard.h"

namespace histogram::server {

class CountingLoops;

// Work for the thread of a loop. An object is in at most one list at a time.
class Posted {
 public:
  virtual ~Posted() = default;
  // Called once for each Post or WhenDry, without any lock. Until then the object stays.
  virtual void Run() = 0;

 private:
  friend class EventLoops;
  Posted* next_ = nullptr;  // in the list that it is in
};

// A loop as its calls see it.
class EventLoop {
 public:
  // Where the operations of its calls complete. Every tag in it is an Event.
  virtual grpc::ServerCompletionQueue& events() = 0;
  // The loop's thread runs `work` soon, and never from within this. Thread-safe.
  // REQUIRES: a call of this loop is open, or the server is not shut down before `work` has run.
  virtual void Post(Posted& work) = 0;
  // The same, but does not wake the loop: `work` runs before its next event, whenever that comes.
  // While a call of the loop awaits such work (AwaitPosted), this wakes the loop as Post does.
  virtual void PostForNextEvent(Posted& work) = 0;
  // A call begins to await work that others post for the next event, or no longer awaits it.
  // REQUIRES: called by the loop's thread.
  virtual void AwaitPosted(bool begins) = 0;
  // Runs `work` once no event waits in the loop any more, or many have passed. What is left until
  // then can be done together, such as sending replies. REQUIRES: called by the loop's thread.
  virtual void WhenDry(Posted& work) = 0;
  // Whether a message of `bytes` is worth the way to another thread and back. True if counting it
  // takes longer than waking a thread, if other cores are likely idle, and if the loop's clients
  // send ahead of their answers: a client that waits for each answer would wait for two threads to
  // wake. REQUIRES: called by the loop's thread; HandedBack is called once for each true.
  virtual bool HandOver(uint64_t bytes) = 0;
  virtual void HandedBack() = 0;
  // Where calls of this loop join once they have arrived.
  virtual ReceiveGuard::Loop& receives() = 0;
  // A call is awaited in this loop (on any thread); gRPC is done with it (on the loop's thread).
  // The loop outlives its calls.
  virtual void CallBegun() = 0;
  virtual void CallEnded() = 0;

 protected:
  ~EventLoop() = default;
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
  EventLoops(grpc::ServerBuilder& builder, uint32_t count, ReceiveGuard& guard);
  ~EventLoops();  // stops
  EventLoops(const EventLoops&) = delete;
  EventLoops& operator=(const EventLoops&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(loops_.size()); }
  EventLoop& operator[](uint32_t i);

  // Starts the threads.
  void Start();
  // For how long the slowest loop has not turned: its thread is busy with one event, or hangs. Each
  // call looks anew. One thread calls it, every now and then. REQUIRES: as of EventLoop::Post.
  int64_t StoodStillNs();
  // Waits until all calls have ended, and ends the threads. REQUIRES: the server has been shut
  // down, so that no call is awaited any more, or was never built.
  void Stop();

 private:
  struct Loop;

  void Serve(Loop& loop);

  std::unique_ptr<CountingLoops> counting_;
  std::vector<std::unique_ptr<Loop>> loops_;
  bool stopped_ = false;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_RPC_EVENT_LOOP_H_
